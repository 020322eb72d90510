"""`make demo`: sets the scenery, plays the story, leaves everything running until Ctrl-C.

RUNTIME says where the agent runs: `local`, a process beside the operator, or `pod`. With CI=1 (or
any other non-empty value) it stops by itself. The exit code is 0 when everything was as it had to
be, else 1; whatever was started is ended, and its folder removed.
"""

import os
import signal
import sys
import threading
from types import FrameType

from cluster.errors import ControlPlaneError
from demo.accidents import LocalStory, PodStory
from demo.localscenery import LocalScenery
from demo.podscenery import PodScenery
from demo.scenery import NAMESPACE, Scenery
from demo.show import Broken, Show, console
from demo.story import SESSION, Story
from fakes.node_tools import InstallError

_TROUBLES = (Broken, ControlPlaneError, InstallError, AssertionError)


def main() -> int:
    """Play once."""
    stop = threading.Event()

    def asked(_number: int, _frame: FrameType | None) -> None:
        _ignore()  # cleaning up is not to be cut off half-way
        stop.set()
        raise KeyboardInterrupt

    # Also where the demo was begun in the background, which has it ignore Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    console.print("[bold]kandev-operator[/]: a coding agent's session that survives")
    played: list[Scenery] = []
    code = 0
    try:
        _play(played, stop)
    except _TROUBLES as error:
        code = _failed("The demo failed", error)
    except KeyboardInterrupt:
        console.print("\nStopping.")
    finally:
        _ignore()
        for scenery in played:
            try:
                scenery.tear_down()
            except _TROUBLES as error:
                code = _failed("Something stays behind", error)
    return code


def _play(played: list[Scenery], stop: threading.Event) -> None:
    """Play, and leave it running; the scenery is in the list as soon as there is one."""
    show = Show()
    scenery: Scenery
    story: Story
    match os.environ.get("RUNTIME", "").strip().lower():
        case "" | "local":
            scenery = LocalScenery()
            story = LocalStory(scenery, show)
        case "pod":
            scenery = PodScenery()
            story = PodStory(scenery, show)
        case other:
            raise Broken(f"RUNTIME={other}: choose local or pod")
    played.append(scenery)
    _set(scenery, show)
    story.play()
    _farewell(scenery, show)
    if not os.environ.get("CI"):
        console.print("\nEverything is running. Ctrl-C ends it and cleans up.")
        stop.wait()


def _set(scenery: Scenery, show: Show) -> None:
    show.scene(scenery.title)
    scenery.raise_cluster()
    show.environment |= scenery.environment()
    show.good(f"{scenery.cluster.description}")
    if isinstance(scenery, PodScenery):
        show.scene("The images")
        scenery.install_images(show)
    show.scene("The CRDs, and the operator")
    scenery.install_crds()
    operator = scenery.start_operator()
    show.good(f"the operator runs (pid {operator.pid}), its log is {operator.log}")
    show.scene("The gateway, and its page")
    gateway = scenery.start_gateway()
    show.good(f"the gateway runs (pid {gateway.pid}), its log is {gateway.log}")
    show.say(f"Open {gateway.url} and watch everything that follows there.")


def _farewell(scenery: Scenery, show: Show) -> None:
    if scenery.gateway is not None:
        show.keep("The page", scenery.gateway.url)
    environment = scenery.environment()
    path = environment["PATH"].split(os.pathsep)[:2]
    show.keep(
        "Try it yourself",
        "\n".join(
            [
                f"export KUBECONFIG={environment['KUBECONFIG']}",
                f"export PATH={os.pathsep.join(path)}:$PATH",
                "kubectl get tasksessions -o wide",
                *scenery.suggestions,
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


def _failed(what: str, error: Exception) -> int:
    console.print(f"\n[red]{what}:[/]", end=" ", highlight=False)
    console.print(str(error), markup=False, highlight=False)
    return 1


def _ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
