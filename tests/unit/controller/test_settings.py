"""Options and environment: what is read, what wins, and what is refused with which words."""

import dataclasses
from pathlib import Path

import pytest

from kandev_operator import __version__
from kandev_operator.api.executor import LocalDockerRuntime
from kandev_operator.controller.options import OPTIONS
from kandev_operator.controller.settings import Settings, parse
from kandev_operator.core.observed import Platform

pytestmark = pytest.mark.unit

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "kandev", "POD_NAME": "op-1"}


def run(*argv: str, **environ: str) -> Settings:
    return parse(["run", *argv], environ)


def test_everything_has_a_default() -> None:
    assert run() == Settings(
        namespaces=(),
        local_executors={},
        docker_executors={},
        docker_host="unix:///var/run/docker.sock",
        kubeconfig=None,
        context=None,
        lease_namespaces=("kandev-system",),
        lease_name="kandev-operator",
        exclusive=False,
        installation="",
        key_namespace="kandev-system",
        lease_seconds=15,
        listen_host="0.0.0.0",
        listen_port=8080,
        workers=16,
        sweep_seconds=300.0,
        probe_seconds=10.0,
        named_sessions=50,
        otlp_endpoint=None,
        key_settle_seconds=180.0,
        log_format="text",
        log_level="info",
        identity="kandev-operator",
        remote_hosts=("*",),
        in_cluster=False,
        platform=Platform(agentctl_image=f"kandev-agentctl:{__version__}"),
        pods_through_api=True,
    )
    assert run().all_namespaces


def test_a_pod_is_told_by_its_environment() -> None:
    settings = parse(["run"], IN_A_POD)
    assert settings.in_cluster
    assert settings.log_format == "json"
    assert not settings.pods_through_api
    assert settings.lease_namespaces == ("kandev",)
    assert settings.identity == "op-1"


def test_every_option_can_be_given() -> None:
    settings = run(
        "--namespace", "a", "b", "--namespace", "c", "a",
        "--allow-local-executors", "a=/srv/a", "b=/srv/b",
        "--allow-docker-executors", "a", "b=/srv/b",
        "--docker-host", "unix:///run/d.sock",
        "--docker-access", "address",
        "--kubeconfig", "/k/config",
        "--context", "dev",
        "--lease-namespace", "system", "other",
        "--installation", "kandev/blue",
        "--key-namespace", "keys",
        "--lease-name", "kandev.leader",
        "--lease-seconds", "5",
        "--listen", "[::1]:0",
        "--workers", "4",
        "--sweep-seconds", "1.5",
        "--probe-seconds", "0.2",
        "--named-sessions", "0",
        "--otlp-endpoint", "http://otel.example.com:4318/v1/traces",
        "--key-settle-seconds", "90",
        "--log-format", "JSON",
        "--log-level", "debug",
        "--identity", "me",
        "--agentctl-image", "images.example.com/agentctl:2",
        "--agentctl-pull-policy", "never",
        "--pod-user", "1234",
        "--pod-access", "direct",
        "--workspace-size", "2.5Gi",
        "--allow-remote-host", "*.example.com", "127.0.0.1",
    )  # fmt: skip
    assert settings == Settings(
        namespaces=("a", "b", "c"),
        local_executors={"a": Path("/srv/a"), "b": Path("/srv/b")},
        docker_executors={"a": None, "b": Path("/srv/b")},
        docker_host="unix:///run/d.sock",
        kubeconfig=Path("/k/config"),
        context="dev",
        lease_namespaces=("other", "system"),
        lease_name="kandev.leader",
        exclusive=False,
        installation="kandev/blue",
        key_namespace="keys",
        lease_seconds=5,
        listen_host="::1",
        listen_port=0,
        workers=4,
        sweep_seconds=1.5,
        probe_seconds=0.2,
        named_sessions=0,
        otlp_endpoint="http://otel.example.com:4318/v1/traces",
        key_settle_seconds=90.0,
        log_format="json",
        log_level="debug",
        identity="me",
        remote_hosts=("*.example.com", "127.0.0.1"),
        in_cluster=False,
        platform=Platform("images.example.com/agentctl:2", "Never", 1234, "2.5Gi", True),
        pods_through_api=False,
    )


def test_every_option_has_a_variable() -> None:
    texts = {
        "namespace": "a, b",
        "all_namespaces": "no",
        "allow_local_executors": "a=/srv/a,b=/srv/b",
        "allow_docker_executors": "a,b=/srv/b",
        "docker_host": "unix:///run/d.sock",
        "docker_access": "address",
        "kubeconfig": "/k/config",
        "context": "dev",
        "lease_namespace": "system",
        "lease_name": "leader",
        "exclusive": "false",
        "installation": "blue",
        "key_namespace": "keys",
        "lease_seconds": "5",
        "listen": ":9",
        "workers": "4",
        "sweep_seconds": "1",
        "probe_seconds": "2",
        "named_sessions": "7",
        "otlp_endpoint": "https://otel.example.com/v1/traces",
        "key_settle_seconds": "60",
        "log_format": "json",
        "log_level": "error",
        "identity": "me",
        "agentctl_image": "agentctl:3",
        "agentctl_pull_policy": "Always",
        "pod_user": "platform",
        "pod_access": "proxy",
        "workspace_size": "5Gi",
        "allow_remote_host": "a.example b.example",
    }
    assert texts.keys() == {option.dest for option in OPTIONS}
    settings = run(**{f"KANDEV_{name.upper()}": text for name, text in texts.items()})
    assert settings.namespaces == ("a", "b")
    assert settings.local_executors == {"a": Path("/srv/a"), "b": Path("/srv/b")}
    assert (settings.listen_host, settings.listen_port) == ("0.0.0.0", 9)
    assert settings.remote_hosts == ("a.example", "b.example")
    unlike = {
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(settings, field.name) == getattr(run(), field.name)
    }
    assert unlike == {"exclusive", "listen_host", "in_cluster", "pods_through_api"}
    assert settings.platform.user is None


def test_an_option_wins_over_its_variable() -> None:
    settings = run("--workers", "3", "--namespace", "x", KANDEV_WORKERS="9", KANDEV_NAMESPACE="y,z")
    assert settings.workers == 3
    assert settings.namespaces == ("x",)


def test_an_empty_variable_says_nothing() -> None:
    assert run(KANDEV_WORKERS=" ", KANDEV_NAMESPACE="", KANDEV_ALL_NAMESPACES="") == run()


def test_what_is_watched_on_the_command_line_wins_over_the_environment() -> None:
    assert run("--all-namespaces", KANDEV_NAMESPACE="a").namespaces == ()
    assert run("--namespace", "b", KANDEV_ALL_NAMESPACES="true").namespaces == ("b",)


def test_the_lease_follows_the_first_namespace_outside_a_pod() -> None:
    assert run("--namespace", "team", "other").lease_namespaces == ("team",)


def test_the_key_follows_the_first_lease_that_was_named() -> None:
    settings = run("--lease-namespace", "b", "a")
    assert settings.lease_namespaces == ("a", "b"), "every operator asks in the same order"
    assert settings.key_namespace == "b"
    assert run("--exclusive").exclusive


@pytest.mark.parametrize(
    ("argv", "environ", "words"),
    [
        ("--namespace a --exclusive", {}, "--exclusive is for operators of all namespaces"),
        ("--exclusive --lease-namespace a b", {}, "goes with one --lease-namespace"),
        ("--installation A/b", {}, "'A/b' is not a name, or names with / between them"),
        ("--namespace a --all-namespaces", {}, "--namespace and --all-namespaces contradict"),
        (
            "",
            {"KANDEV_NAMESPACE": "a", "KANDEV_ALL_NAMESPACES": "1"},
            "--namespace and --all-namespaces contradict",
        ),
        (
            "--allow-local-executors a=/srv",
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            "refused inside a cluster",
        ),
        (
            "",
            {"KANDEV_ALLOW_LOCAL_EXECUTORS": "a=/srv", "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            "refused inside a cluster",
        ),
        ("--namespace a --allow-local-executors b=/srv", {}, "b is not among --namespace"),
        ("--allow-local-executors a=/x a=/y", {}, "one folder only"),
        ("--allow-docker-executors a a=/y", {}, "--allow-docker-executors: a namespace has one"),
        ("--allow-docker-executors a=", {}, "not an absolute path"),
        ("--docker-host tcp://10.0.0.1:2375", {}, "is not unix:// and an absolute path"),
        ("--docker-access guess", {}, "is not one of published, address"),
        ("--allow-local-executors a", {}, "'a' is not NAMESPACE=FOLDER"),
        ("--allow-local-executors a=srv", {}, "not an absolute path"),
        ("--allow-local-executors a=/", {}, "not an absolute path of a folder below /"),
        ("--allow-local-executors a=/srv/../etc", {}, "not an absolute path"),
        ("--namespace Team", {}, "--namespace: 'Team' is not a namespace's name"),
        ("", {"KANDEV_NAMESPACE": "a,Team"}, "KANDEV_NAMESPACE: 'Team' is not a namespace's"),
        ("--lease-name a..b", {}, "'a..b' is not an object's name"),
        ("--lease-seconds 1", {}, "--lease-seconds: '1' is not a whole number of at least 2"),
        ("--workers 0", {}, "at least 1"),
        ("", {"KANDEV_WORKERS": "many"}, "KANDEV_WORKERS: 'many' is not a whole number"),
        ("--sweep-seconds 0", {}, "not a number of seconds above zero"),
        ("--probe-seconds nan", {}, "not a number of seconds above zero"),
        ("--probe-seconds inf", {}, "not a number of seconds above zero"),
        ("--listen 8080", {}, "'8080' is not HOST:PORT"),
        ("--listen localhost:http", {}, "is not HOST:PORT"),
        ("--listen localhost:70000", {}, "is not HOST:PORT"),
        ("--log-format xml", {}, "'xml' is not one of json, text"),
        ("--log-level loud", {}, "'loud' is not one of debug, info, warning, error"),
        ("", {"KANDEV_ALL_NAMESPACES": "perhaps"}, "'perhaps' is not true or false"),
        ("--allow-remote-host https://a.example", {}, "is not a host, or a pattern"),
        ("--namespac a", {}, "unrecognized arguments"),
    ],
)
def test_what_makes_no_sense_is_refused(
    argv: str, environ: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run(*argv.split(), **environ)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([], {})
    assert "run" in capsys.readouterr().err


def test_help_says_every_default_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run("--help")
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert option.flag in text
        assert option.variable in text
    assert text.count("(default: ") == len(OPTIONS)
    assert "(default: 15; KANDEV_LEASE_SECONDS)" in text
    assert "(default: 0.0.0.0:8080; KANDEV_LISTEN)" in text
    assert "None" not in text


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        ("https://agents.example.com:8443/base", None),
        ("https://[2001:db8::1]/", None),
        ("http://127.0.0.1:9000", None),
        ("http://[::1]:9000", None),
        ("http://localhost:9000", None),
        ("http://agents.example.com", "http is for loopback addresses only"),
        ("http://127.0.0.1.example.com", "http is for loopback addresses only"),
        ("http://169.254.169.254/latest", "http is for loopback addresses only"),
        ("https://user:word@agents.example.com", "must not hold credentials"),
        ("ftp://agents.example.com", "must begin with https://"),
        ("agents.example.com", "names no host"),
        ("https://", "names no host"),
        ("https://agents.example.com:port", "cannot be read"),
        ("https://[::1", "cannot be read"),
    ],
)
def test_by_default_any_https_host_is_allowed(url: str, refusal: str | None) -> None:
    answer = run().remote_refusal(url)
    assert (answer is None) if refusal is None else (refusal in (answer or ""))


def test_patterns_narrow_down_which_hosts_are_allowed() -> None:
    settings = run("--allow-remote-host", "*.Example.com", "10.1.2.3")
    assert settings.remote_refusal("https://A.example.COM./x") is None
    assert settings.remote_refusal("https://10.1.2.3") is None
    assert "does not include example.com" in (settings.remote_refusal("https://example.com") or "")
    assert settings.remote_refusal("http://127.0.0.1:1") is not None
    evil = settings.remote_refusal("https://evil.org/a.example.com")
    assert evil == "the operator's --allow-remote-host does not include evil.org"


@pytest.mark.parametrize(
    ("namespace", "block", "words"),
    [
        ("a", {"image": "i"}, None),
        ("a", {"container_id": "c"}, None),
        ("a", {"network": "agents"}, None),
        ("b", {"workspace_path": "/srv/b/one"}, None),
        ("c", {"image": "i"}, "--allow-docker-executors does not name it"),
        ("a", {"network": "host"}, "host is not a network of the container's own"),
        ("a", {"network": "container:x"}, "not a network of the container's own"),
        ("a", {"workspace_path": "/srv/b/one"}, "not below the folder"),
        ("b", {"workspace_path": "/srv/b"}, "not below the folder"),
        ("b", {"workspace_path": "/srv/b/../c"}, "not below the folder"),
        ("b", {"workspace_path": "/srv/bb"}, "not below the folder"),
    ],
)
def test_which_containers_an_executor_may_be(
    namespace: str, block: dict[str, str], words: str | None
) -> None:
    settings = run("--allow-docker-executors", "a", "b=/srv/b")
    refused = settings.docker_refusal(namespace, LocalDockerRuntime(**block))
    assert (refused is None) == (words is None)
    assert words is None or words in (refused or "")


def test_no_host_at_all_may_be_allowed() -> None:
    settings = run("--allow-remote-host", "none")
    assert settings.remote_hosts == ()
    refusal = settings.remote_refusal("https://a.example")
    assert refusal == "the operator's --allow-remote-host does not include a.example"
