"""A control plane with a node beside it: pods run, volumes are mounted, evictions happen.

`Node` is a `ControlPlane` that also starts controller manager, scheduler, containerd, kubelet,
kube-proxy, a DNS server and a provisioner for the storage class `local`. It needs root, and a
machine has one. Any of its programs can be stopped with a signal and started again, under the name
it has in `PROGRAMS`; pods outlive that as they do on a real node.

Images are loaded from archives, never pulled. What the programs are told is in `flags.py`; what of
the machine is taken, and how it is given back whatever happens, is in `ground.py`.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cluster import build, ports
from cluster.binaries import Binaries
from cluster.controlplane import ControlPlane
from cluster.errors import ControlPlaneError
from cluster.images import oci
from cluster.interface import Cluster
from cluster.node import flags, ground, packages
from cluster.node.flags import Ports
from cluster.node.probes import answers, node_is_ready
from cluster.processes import Component

CONTAINERD, KUBELET, PROXY = "containerd", "kubelet", "kube-proxy"
CONTROLLERS, SCHEDULER = "kube-controller-manager", "kube-scheduler"
DNS, PROVISIONER = "coredns", "provisioner"
PROGRAMS = (CONTROLLERS, SCHEDULER, CONTAINERD, DNS, KUBELET, PROXY, PROVISIONER)

_PODS_END_WITHIN = 60.0
_MAIN_PATIENCE = 3600.0
_IMPORT_PATIENCE = 600.0


class Node(ControlPlane):
    """A whole cluster of one node, from `start` to `stop`; it may be started anew after that."""

    description = "the node made for this run"
    host = flags.GATEWAY

    def __init__(
        self, *, audit: bool = False, start_timeout: float = 180, patience: float = 0
    ) -> None:
        """`patience` is how many seconds another node of ours on this machine is waited for."""
        super().__init__(audit=audit, start_timeout=start_timeout)
        self._patience = patience
        self._ground: ground.Ground | None = None
        self._home: Path | None = None
        self._commands: dict[str, list[str | Path]] = {}
        self._parts: dict[str, Component] = {}
        self._loaded: set[Path] = set()

    # From nothing to ready, and back.

    def prepare(self) -> None:
        if self._home is not None:
            return
        if os.geteuid() != 0:
            raise ControlPlaneError(
                "a node needs root, for mounts, network and control groups: run this as root"
            )
        packages.ensure()
        self._home = build.ensure(recipe=build.NODE).parent
        self._found = Binaries.in_folder(self._home)

    def start(self) -> None:
        if self._started is not None:
            raise ControlPlaneError("it is started already")
        self.prepare()
        self._ground = ground.take(self._patience)
        self._given_folder = self._ground.folder
        self._extra = ()
        try:
            super().start()
            self._start_programs()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        taken, self._ground = self._ground, None
        if taken is None:
            return
        try:
            self._end_pods()
        finally:
            for part in reversed(self._parts.values()):
                part.kill()
            self._parts, self._commands, self._loaded = {}, {}, set()
            super().stop()
            taken.give_back()

    def start_apiserver(self) -> None:
        # Its certificates exist only now, when the folder does.
        run = self._run
        if not self._extra:
            client = run.pki.authority.issue_client("kubelet-client", ["system:masters"])
            files = client.write(run.folder / "pki", "kubelet-client")
            self._extra = tuple(flags.apiserver(run.pki.ca_file, *files))
        super().start_apiserver()

    def _start_programs(self) -> None:
        run = self._run
        taken = Ports(*ports.free(Ports.COUNT))
        ca, token_key = run.pki.ca_file, run.pki.token_key_file
        pki = run.folder / "pki"
        for path, body in flags.objects():
            run.api.demand("POST", path, body, allow=409)
        who = self._kubeconfig_of(CONTROLLERS)
        words = flags.controllers(who, ca, token_key, pki / CONTROLLERS, taken.controllers)
        self._add(CONTROLLERS, words)
        words = flags.scheduler(self._kubeconfig_of(SCHEDULER), pki / SCHEDULER, taken.scheduler)
        self._add(SCHEDULER, words)
        words = flags.containerd(run.folder, packages.cni_folder())
        self._add(CONTAINERD, words, program=self._tool(CONTAINERD))
        self._add(DNS, flags.dns(self._kubeconfig_of(DNS), run.folder, taken))
        self._add(PROXY, flags.proxy(self._kubeconfig_of(PROXY), taken))
        self._add(PROVISIONER, flags.provisioner(self.kubeconfig, run.folder))
        self._wait(CONTAINERD, self._containerd_answers)
        self._load_sandbox_image()
        who = self.kubeconfig_for(f"system:node:{flags.NAME}", ["system:nodes"])
        self._add(KUBELET, flags.kubelet(who, ca, run.folder, taken))
        health = f"http://{flags.LOOPBACK}"
        self._wait(DNS, lambda: answers(f"{health}:{taken.dns_health}/health"))
        self._wait(PROXY, lambda: answers(f"{health}:{taken.proxy_health}/healthz"))
        self._wait(KUBELET, self.is_ready)
        account = "/api/v1/namespaces/kube-system/serviceaccounts/default"
        self._wait(CONTROLLERS, lambda: run.api.request("GET", account).code == 200)

    def _add(self, name: str, words: Sequence[str], program: Path | None = None) -> None:
        assert self._home is not None
        self._parts[name] = self._run.component(name)
        self._commands[name] = [program or self._home / name, *words]
        self._parts[name].start(self._commands[name])

    def _wait(self, name: str, is_ready: Callable[[], bool]) -> None:
        self._parts[name].wait_until(is_ready, "ready", self._timeout)

    def _kubeconfig_of(self, program: str) -> Path:
        return self.kubeconfig_for(f"system:{program}")

    @staticmethod
    def _tool(name: str) -> Path:
        found = shutil.which(name, path=packages.search_path())
        if found is None:
            raise ControlPlaneError(f"{name} is not installed")
        return Path(found)

    # Its programs.

    @property
    def pids(self) -> dict[str, int]:
        more = {name: part.pid for name, part in self._parts.items() if part.is_running}
        return super().pids | more

    def is_ready(self) -> bool:
        """Tell whether the node says that pods can run on it."""
        return node_is_ready(self._run.api, flags.NAME)

    def stop_program(self, name: str, signal_number: int = signal.SIGTERM) -> None:
        """Send a program a signal that ends it, and return when it has ended."""
        part = self._parts[name]
        if signal_number == signal.SIGKILL:
            part.kill()
            return
        os.kill(part.pid, signal_number)
        deadline = time.monotonic() + self._timeout
        while part.is_running:
            if time.monotonic() > deadline:
                raise part.failure(f"did not end after signal {signal_number}")
            time.sleep(0.03)

    def start_program(self, name: str) -> None:
        """Start a program again with the same flags and data; it may not be ready yet."""
        self._parts[name].start(self._commands[name])

    def logs(self) -> dict[str, Path]:
        """Return the log files of all programs, by name."""
        return {path.stem: path for path in sorted(self.folder.glob("*.log"))}

    # Containers and images.

    def ctr(self, *words: str | Path, timeout: float = 60) -> str:
        """Run containerd's own client on the node's containers and return what it printed."""
        command = [self._tool("ctr"), "--address", flags.socket(self.folder), "-n", "k8s.io"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            said = done.stderr.strip()
            raise ControlPlaneError(f"ctr {' '.join(map(str, words))}: {said}")
        return done.stdout

    def load(self, *archives: Path) -> None:
        """Bring the images of OCI archives onto the node, unless it has them already.

        An image has the name that its archive says; `oci.image_name` reads it.
        """
        for archive in archives:
            if archive not in self._loaded:
                self.ctr("images", "import", archive, timeout=_IMPORT_PATIENCE)
                self._loaded.add(archive)

    def _containerd_answers(self) -> bool:
        with suppress(ControlPlaneError):
            self.ctr("version")
            return True
        return False

    def _load_sandbox_image(self) -> None:
        assert self._home is not None
        root = self.folder / "pause-root"
        root.mkdir()
        shutil.copy2(self._home / "pause", root / "pause")
        archive = self.folder / "pause.tar"
        oci.pack(root, archive, oci.Settings(flags.SANDBOX_IMAGE, entrypoint=("/pause",)))
        self.load(archive)
        shutil.rmtree(root)
        archive.unlink()

    # Namespaces: here are controllers that empty them.

    def delete_namespace(self, name: str) -> None:
        Cluster.delete_namespace(self, name)

    def _end_pods(self) -> None:
        """Have the kubelet end all pods while it can: it knows their mounts and networks."""
        working = {name for name, part in self._parts.items() if part.is_running}
        if self._started is None or not self._run.apiserver.is_running:
            return
        if not {CONTAINERD, KUBELET} <= working:
            return
        # Whoever would make new ones goes first.
        for name in (CONTROLLERS, SCHEDULER):
            self._parts[name].kill()
        with suppress(OSError, ControlPlaneError, subprocess.SubprocessError):
            self.kubectl(
                *("delete", "pods", "--all", "--all-namespaces", "--wait=false"),
                *("--grace-period=1", "--ignore-not-found"),
            )
            deadline = time.monotonic() + _PODS_END_WITHIN
            while self.ctr("tasks", "list", "-q").split():
                if time.monotonic() > deadline:
                    return  # the janitor does it
                time.sleep(0.1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster.node.node")
    parser.add_argument("--load", type=Path, nargs="*", default=[], help="OCI archives to load")
    options = parser.parse_args(arguments)
    endings = {signal.SIGINT, signal.SIGTERM}
    try:
        with Node(patience=_MAIN_PATIENCE) as node:
            node.load(*options.load)
            # Not before: the programs would inherit the mask, and could not be interrupted. And not
            # later: whoever reads the path may end it at once.
            signal.pthread_sigmask(signal.SIG_BLOCK, endings)
            print(node.kubeconfig, flush=True)
            print(f"in {node.folder}; Ctrl-C ends it", file=sys.stderr, flush=True)
            signal.sigwait(endings)
    except ControlPlaneError as error:
        print(f"node: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
