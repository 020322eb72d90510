"""A real etcd and kube-apiserver of our own, for one test run: no node, no controllers, no root.

Objects, versions, watches, admission, RBAC and CRDs are the real thing. Nothing makes pods run or
collects garbage: a test plays those parts itself, which is what makes every state reachable. What
happens on a node belongs to the end-to-end tests.

All data is in one folder and all ports are on the loopback, so any number of control planes run
side by side. Which cluster a test run gets is decided in `choice.py`, the flags are in `flags.py`.
By hand: `python -m cluster.controlplane up`.
"""

import argparse
import hashlib
import json
import re
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster import binaries, certificates, flags, namespaces, ports
from cluster.api import Api, etcd_answers
from cluster.audit import AuditLog
from cluster.binaries import Binaries
from cluster.certificates import Identity, Pki
from cluster.errors import ControlPlaneError
from cluster.interface import Cluster, Snapshot
from cluster.processes import Component

_PORT_TRIES = 3
_AUDIT_PATIENCE = 10.0


@dataclass
class _Run:
    """What exists from start to stop, and nowhere else."""

    name: str
    folder: Path
    orphaned_folder: Path | None
    host: str
    pki: Pki = field(init=False)
    etcd: Component = field(init=False)
    apiserver: Component = field(init=False)
    etcd_port: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        for name in ("kubeconfigs", "snapshots"):
            (self.folder / name).mkdir(mode=0o700)
        addresses = dict.fromkeys((flags.LOOPBACK, self.host, flags.SERVICE_ADDRESS))
        self.pki = Pki(self.folder / "pki", addresses, flags.HOSTS)
        self.etcd = self.component("etcd")
        self.apiserver = self.component("kube-apiserver")

    def component(self, name: str) -> Component:
        return Component(name, self.folder / f"{name}.log", self.orphaned_folder)

    @property
    def data(self) -> Path:
        return self.folder / "etcd"

    @property
    def api(self) -> Api:
        return Api(self.port, self.pki.ca_file, *self.pki.admin_files, host=self.host)

    def kill(self) -> None:
        self.apiserver.kill()
        self.etcd.kill()


class ControlPlane(Cluster):
    """One etcd and one kube-apiserver, from `start` to `stop`; it may be started anew after that.

    A folder that is given must be new or empty, and is left behind for a person to look into.
    """

    description = "the control plane made for this run"
    host = flags.LOOPBACK

    def __init__(
        self,
        programs: Binaries | None = None,
        *,
        folder: Path | None = None,
        audit: bool = False,
        extra_apiserver_args: Sequence[str] = (),
        start_timeout: float = 90,
    ) -> None:
        self._found = programs
        self._given_folder = folder
        self._is_audited = audit
        self._extra = tuple(extra_apiserver_args)
        self._timeout = start_timeout
        self._started: _Run | None = None

    # From nothing to ready, and back.

    def prepare(self) -> None:
        if self._found is None:
            self._found = binaries.find()

    def start(self) -> None:
        if self._started is not None:
            raise ControlPlaneError("it is started already")
        self.prepare()
        folder = self._new_folder()
        orphaned = folder if self._given_folder is None else None
        try:
            name = f"kandev-test-{uuid.uuid4().hex}"
            self._started = _Run(name, folder, orphaned, self.host)
            self._start_on_free_ports()
            namespaces.add_service_account(self._run.api, "default")
        except BaseException:
            self.stop()
            if orphaned is not None:
                shutil.rmtree(orphaned, ignore_errors=True)
            raise

    def stop(self) -> None:
        run, self._started = self._started, None
        if run is None:
            return
        # No farewell: what a clean end would save is removed in the next line.
        run.kill()
        if run.orphaned_folder is not None:
            shutil.rmtree(run.orphaned_folder, ignore_errors=True)

    def _new_folder(self) -> Path:
        if self._given_folder is None:
            return Path(tempfile.mkdtemp(prefix="kandev-control-plane-"))
        folder = self._given_folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ControlPlaneError(f"{folder} is not empty: name a folder of its own")
        return folder

    def _start_on_free_ports(self) -> None:
        run = self._run
        for tries_left in reversed(range(_PORT_TRIES)):
            run.port, run.etcd_port = ports.free(2)
            self._write_kubeconfig(self.kubeconfig, Pki.ADMIN, run.pki.admin)
            try:
                self._start_etcd()
                self.start_apiserver()
            except ControlPlaneError as error:
                run.kill()
                # Somebody took the port between our look and our use of it.
                if not tries_left or "address already in use" not in str(error):
                    raise
            else:
                return

    def _start_etcd(self) -> None:
        run = self._run
        words = flags.etcd(run.name, run.data, run.etcd_port)
        run.etcd.start([self._programs.etcd, *words])
        run.etcd.wait_until(lambda: etcd_answers(run.etcd_port, run.name), "healthy", self._timeout)

    def start_apiserver(self) -> None:
        run, api = self._run, self._run.api
        words = flags.apiserver(run.pki, run.host, run.port, run.etcd_port)
        if self._is_audited:
            words += flags.audit(self._audit_file, run.folder / "audit-policy.json")
        run.apiserver.start([self._programs.apiserver, *words, *self._extra])
        run.apiserver.wait_until(
            lambda: api.request("GET", "/readyz").code == 200, "ready", self._timeout
        )

    # Where things are.

    @property
    def _run(self) -> _Run:
        if self._started is None:
            raise ControlPlaneError(f"{self.description} is not started")
        return self._started

    @property
    def _programs(self) -> Binaries:
        self.prepare()
        assert self._found is not None
        return self._found

    @property
    def folder(self) -> Path:
        return self._run.folder

    @property
    def scratch(self) -> Path:
        return self.folder

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def kubectl_command(self) -> Path:
        return self._programs.kubectl

    @property
    def server(self) -> str:
        return f"https://{self.host}:{self._run.port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._run.etcd_port}"

    @property
    def authority_file(self) -> Path:
        """Who vouches for the API server, and for whoever else has its certificate."""
        return self._run.pki.ca_file

    @property
    def server_files(self) -> tuple[Path, Path]:
        """Certificate and key for a server of a test's own on this machine."""
        return self._run.pki.server_files

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of what runs, by the program's name."""
        parts = (self._run.etcd, self._run.apiserver)
        return {part.name: part.pid for part in parts if part.is_running}

    # Namespaces and users.

    def create_namespace(self, name: str) -> None:
        namespaces.create(self._run.api, name)

    def delete_namespace(self, name: str) -> None:
        namespaces.delete(self._run.api, name)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        words = json.dumps([user, sorted(groups)])
        digest = hashlib.sha256(words.encode()).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9]+", "-", user)[:40]
        path = self.folder / "kubeconfigs" / f"{readable}-{digest}.kubeconfig"
        if not path.exists():
            who = self._run.pki.authority.issue_client(user, groups)
            self._write_kubeconfig(path, user, who)
        return path

    def _write_kubeconfig(self, path: Path, user: str, who: Identity) -> None:
        authority = self._run.pki.authority.certificate
        certificates.write_kubeconfig(path, self.server, authority, user, who)

    # Faults.

    def pause_apiserver(self) -> None:
        self._run.apiserver.pause()

    def resume_apiserver(self) -> None:
        self._run.apiserver.resume()

    def kill_apiserver(self) -> None:
        self._run.apiserver.kill()

    def snapshot(self) -> Snapshot:
        run = self._run
        snapshots = run.folder / "snapshots"
        path = snapshots / str(len(list(snapshots.iterdir())))
        # What a paused etcd has on disk is what a killed one would have, which it can start from;
        # and the API server sees a pause of a fraction of a second in place of a lost connection.
        run.etcd.pause()
        try:
            shutil.copytree(run.data, path)
        finally:
            run.etcd.resume()
        return Snapshot(path)

    def restore(self, snapshot: Snapshot) -> None:
        run = self._run
        if snapshot.path.parent != run.folder / "snapshots":
            raise ControlPlaneError("the snapshot belongs to another control plane")
        # The API server goes too: its caches must not remember what now has not happened.
        run.kill()
        shutil.rmtree(run.data)
        shutil.copytree(snapshot.path, run.data)
        self._start_etcd()
        self.start_apiserver()

    # Audit.

    @property
    def audit(self) -> AuditLog:
        if not self._is_audited:
            raise ControlPlaneError("there is no audit log: make the control plane with audit=True")
        return AuditLog(self._audit_file, self._settle_audit)

    @property
    def _audit_file(self) -> Path:
        return self.folder / "audit.jsonl"

    def _settle_audit(self) -> None:
        """Make a request that stores nothing, and wait until the log has it."""
        marker = str(uuid.uuid4())
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        with self._audit_file.open("rb") as log:
            log.seek(0, 2)
            self._run.api.demand("POST", path, body, Audit_ID=marker)
            said = b""
            deadline = time.monotonic() + _AUDIT_PATIENCE
            while marker.encode() not in said:
                if time.monotonic() > deadline:
                    raise ControlPlaneError("the audit log lacks a request that was answered")
                said += log.read()
                time.sleep(0.005)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster.controlplane")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="run one until Ctrl-C, and print its kubeconfig's path")
    up.add_argument("--folder", type=Path, help="keep all data here, and leave it behind")
    up.add_argument("--audit", action="store_true", help="write audit.jsonl into the folder")
    options = parser.parse_args(arguments)
    endings = {signal.SIGINT, signal.SIGTERM}
    control_plane = ControlPlane(folder=options.folder, audit=options.audit)
    try:
        with control_plane:
            # Not before: the components would inherit the mask, and kubectl could not be
            # interrupted. And not later: whoever reads the path may end it at once.
            signal.pthread_sigmask(signal.SIG_BLOCK, endings)
            print(control_plane.kubeconfig, flush=True)
            print(f"in {control_plane.folder}; Ctrl-C ends it", file=sys.stderr, flush=True)
            signal.sigwait(endings)
    except ControlPlaneError as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
