"""`make demo`: sets the scenery, plays the story, leaves everything running until Ctrl-C.

With CI=1 (or any other non-empty value) it stops by itself. The exit code is 0 when everything
was as it had to be, else 1; whatever was started is ended, and its folder removed.
"""

import os
import signal
import sys
import threading
from types import FrameType

from cluster.errors import ControlPlaneError
from demo.scenery import NAMESPACE, Scenery
from demo.show import Broken, Show, console
from demo.story import SESSION, Story


def main() -> int:
    """Play once."""
    stop = threading.Event()

    def asked(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        raise KeyboardInterrupt

    # Also where the demo was begun in the background, which has it ignore Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    console.print("[bold]kandev-operator[/]: a coding agent's session that survives")
    scenery = Scenery()
    try:
        show = Show()
        _set(scenery, show)
        Story(scenery, show).play()
        _farewell(scenery, show)
        if os.environ.get("CI"):
            return 0
        console.print("\nEverything is running. Ctrl-C ends it and cleans up.")
        stop.wait()
    except (Broken, ControlPlaneError, AssertionError) as error:
        console.print(f"\n[red]The demo failed:[/] {error}", markup=True, highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("\nStopping.")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # cleaning up is not to be cut off half-way
        scenery.tear_down()
    return 0


def _set(scenery: Scenery, show: Show) -> None:
    show.scene("A control plane: etcd and kube-apiserver on this machine")
    scenery.raise_cluster()
    show.environment |= scenery.environment()
    show.good(f"{scenery.cluster.description}")
    show.scene("The CRDs, and the operator")
    scenery.install_crds()
    operator = scenery.start_operator()
    show.good(f"the operator runs (pid {operator.pid}), its log is {operator.log}")


def _farewell(scenery: Scenery, show: Show) -> None:
    environment = scenery.environment()
    path = environment["PATH"].split(os.pathsep)[:2]
    show.keep(
        "Try it yourself",
        "\n".join(
            [
                f"export KUBECONFIG={environment['KUBECONFIG']}",
                f"export PATH={os.pathsep.join(path)}:$PATH",
                "kubectl get tasksessions -o wide",
                "kubectl explain tasksession.spec",
                f"kubectl kandev why {SESSION}",
                f'kubectl kandev prompt {SESSION} "And what else do you know?"',
                f"kubectl kandev logs -f {SESSION}",
                f"kubectl annotate --overwrite tasksession {SESSION} "
                "kandev.dev/resume-requested=$(date +%s)",
                f"kubectl -n {NAMESPACE} patch tasksession {SESSION} --type=merge "
                '-p \'{"spec":{"operatingMode":"Suspended"}}\'',
            ]
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
