"""What the operator was told when it was started: options and environment, as one frozen value.

`parse` is a function of its two arguments; it opens no file and asks nobody. An option that is
given wins over its variable, a variable over the default, and `--help` names all three. Options
that contradict each other are refused before anything runs, with a sentence that says which.

What may be asked of an address in an Executor (`remote_refusal`) is answered here too, because
the answer is made of nothing but an option.
"""

import argparse
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from kandev_operator.api.executor import LocalDockerRuntime
from kandev_operator.controller.commandline import parsers, value_of
from kandev_operator.controller.options import NO_HOST, OPTIONS
from kandev_operator.core.observed import Platform

_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every option of `kandev-operator run`, checked."""

    namespaces: tuple[str, ...]
    """Watched namespaces; empty means all of them."""
    local_executors: Mapping[str, Path]
    """Where an Executor may run on this machine: namespace to root folder."""
    docker_executors: Mapping[str, Path | None]
    """Where an Executor may be a container of this machine's Docker engine: namespace to the folder
    below which its containers may be given folders of the machine, or none."""
    docker_host: str
    kubeconfig: Path | None
    context: str | None
    lease_namespaces: tuple[str, ...]
    """Where the leader holds a Lease, in the order in which every operator asks for them."""
    lease_name: str
    exclusive: bool
    """Whether another operator's Lease, in any namespace, is a reason not to lead."""
    installation: str
    """What the replicas of this operator have in common; empty where nobody said."""
    key_namespace: str
    lease_seconds: int
    listen_host: str
    listen_port: int
    workers: int
    sweep_seconds: float
    probe_seconds: float
    otlp_endpoint: str | None
    """Where traces are sent; nowhere without it."""
    named_sessions: int
    """How many sessions in trouble the metrics name."""
    key_settle_seconds: float
    log_format: str
    log_level: str
    identity: str
    """Who this is, for people. The Lease adds a suffix of its own for each process."""
    remote_hosts: tuple[str, ...]
    in_cluster: bool
    platform: Platform
    """What is said about the pods of executors."""
    pods_through_api: bool
    """Pods are reached through the API server, not at their own addresses."""

    @property
    def all_namespaces(self) -> bool:
        """Whether the whole cluster is watched."""
        return not self.namespaces

    def remote_refusal(self, url: str) -> str | None:
        """Say why an Executor may not point at this URL; None when it may."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").rstrip(".")
            _ = parts.port  # reading it is what checks it
        except ValueError:
            return "the URL cannot be read"
        if not host:
            return "the URL names no host"
        if parts.username is not None or parts.password is not None:
            return "the URL must not hold credentials"
        if parts.scheme not in ("http", "https"):
            return "the URL must begin with https://"
        if parts.scheme == "http" and not _is_loopback(host):
            return "http is for loopback addresses only; use https"
        if not any(fnmatchcase(host, pattern) for pattern in self.remote_hosts):
            return f"the operator's --allow-remote-host does not include {host}"
        return None

    def docker_refusal(self, namespace: str, docker: LocalDockerRuntime) -> str | None:
        """Say why an Executor may not be this container; None when it may."""
        if namespace not in self.docker_executors:
            return (
                f"Namespace {namespace} may have no containers on the operator's machine: its "
                "--allow-docker-executors does not name it."
            )
        network, folder = docker.network or "", docker.workspace_path
        if network in ("host", "none") or network.startswith("container:"):
            return f"spec.localDocker.network: {network} is not a network of the container's own."
        if folder is None:
            return None
        root = self.docker_executors[namespace]
        place = PurePosixPath(folder)
        if (
            root is None
            or ".." in place.parts
            or not place.is_relative_to(root)
            or place == PurePosixPath(root)
        ):
            return (
                f"spec.localDocker.workspacePath: {folder} is not below the folder that the "
                f"operator's --allow-docker-executors gives for namespace {namespace}."
            )
        return None


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read the command line after the program's name. Ends the program where it makes no sense."""
    parser, run = parsers()
    given = vars(parser.parse_args(argv))
    values = {option.dest: value_of(option, given, environ, run) for option in OPTIONS}
    _settle_scope(values, given, run)
    in_cluster = bool(environ.get(_IN_CLUSTER))
    _refuse_contradictions(values, in_cluster, run)
    namespaces: tuple[str, ...] = values["namespace"]
    host, port = values["listen"]
    home = environ.get("POD_NAMESPACE") or (namespaces[0] if namespaces else "kandev-system")
    leases: tuple[str, ...] = values["lease_namespace"] or (home,)
    return Settings(
        namespaces=namespaces,
        local_executors=MappingProxyType(dict(values["allow_local_executors"])),
        docker_executors=MappingProxyType(dict(values["allow_docker_executors"])),
        docker_host=values["docker_host"],
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        lease_namespaces=tuple(sorted(leases)),
        lease_name=values["lease_name"],
        exclusive=values["exclusive"],
        installation=values["installation"] or "",
        key_namespace=values["key_namespace"] or leases[0],
        lease_seconds=values["lease_seconds"],
        listen_host=host,
        listen_port=port,
        workers=values["workers"],
        sweep_seconds=values["sweep_seconds"],
        probe_seconds=values["probe_seconds"],
        named_sessions=values["named_sessions"],
        otlp_endpoint=values["otlp_endpoint"],
        key_settle_seconds=values["key_settle_seconds"],
        log_format=values["log_format"] or ("json" if in_cluster else "text"),
        log_level=values["log_level"],
        identity=values["identity"]
        or environ.get("POD_NAME")
        or environ.get("HOSTNAME")
        or "kandev-operator",
        remote_hosts=tuple(host for host in values["allow_remote_host"] if host != NO_HOST),
        in_cluster=in_cluster,
        platform=Platform(
            agentctl_image=values["agentctl_image"],
            image_pull_policy=values["agentctl_pull_policy"],
            user=values["pod_user"],
            workspace_size=values["workspace_size"],
            docker_by_address=values["docker_access"] == "address",
        ),
        pods_through_api=values["pod_access"] == "proxy"
        or (values["pod_access"] == "auto" and not in_cluster),
    )


def _settle_scope(
    values: dict[str, Any], given: Mapping[str, Any], run: argparse.ArgumentParser
) -> None:
    """Make sense of the two options that say what is watched: one alone is what they agree on."""
    if not (values["namespace"] and values["all_namespaces"]):
        return
    if (given["namespace"] is None) == (given["all_namespaces"] is None):
        run.error("--namespace and --all-namespaces contradict each other: give one of them")
    if given["namespace"] is None:  # the variable names some, the command line says all
        values["namespace"] = ()


def _refuse_contradictions(
    values: Mapping[str, Any], in_cluster: bool, run: argparse.ArgumentParser
) -> None:
    """Refuse what can be read but cannot be meant."""
    local = values["allow_local_executors"]
    if local and in_cluster:
        run.error(
            "--allow-local-executors is refused inside a cluster: it would run agents in the "
            "operator's own pod, beside its credentials"
        )
    watched = values["namespace"]
    if watched and values["exclusive"]:
        run.error("--exclusive is for operators of all namespaces; --namespace names some")
    if values["exclusive"] and len(values["lease_namespace"]) > 1:
        run.error("--exclusive goes with one --lease-namespace")
    for flag in ("--allow-local-executors", "--allow-docker-executors"):
        allowed = [namespace for namespace, _ in values[flag.lstrip("-").replace("-", "_")]]
        if len(set(allowed)) < len(allowed):
            run.error(f"{flag}: a namespace has one folder only")
        for namespace in allowed:
            if watched and namespace not in watched:
                run.error(f"{flag}: {namespace} is not among --namespace")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
