"""Sessions that are really stuck, a real operator's page of metrics, and the alerts it comes to.

What was scraped is played on for an hour, as it would be if nobody did anything. The alert, the
session's name in it and the words of `kubectl kandev why` must be those of what was broken.
"""

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kandev_operator.api.troubles import Problem, Trouble
from kandev_operator.clients.signing import SECRET_NAME
from promql.engine import Alert, Engine, lasting
from stage.operatorprocess import OperatorProcess
from stage.scene import Part, Scene
from stage.sessions import Namespace, condition

ROOT: Final = Path(__file__).parents[3]
RULES: Final = ROOT / "helm" / "kandev-operator" / "files" / "alerts.yaml"
SCRIPT: Final = Path(sys.executable).with_name("kubectl-kandev")
AGEING: Final = {"kandev_operator_session_trouble_seconds": 30}


def played_on(promql: Engine, page: str, moment: str = "1h") -> list[Alert]:
    """What fires after an hour of this page, scraped every half minute."""
    series = lasting(page, 150, AGEING, job="kandev", namespace="kandev-system", instance="a")
    told = promql.alerts(RULES, series, ["0s", moment])
    assert not [each for each in told["0s"] if each.state == "firing"], "not at once"
    return [each for each in told[moment] if each.state == "firing"]


def why(scene: Scene, name: str) -> str:
    """What the plugin says, on one line."""
    place = scene.place
    environment = {
        **os.environ,
        "KUBECONFIG": str(place.cluster.kubeconfig),
        "KANDEV_OPERATOR_NAMESPACE": scene.home,
        "NO_COLOR": "1",
        "COLUMNS": "400",
    }
    done = subprocess.run(
        [SCRIPT, "why", name, "-n", place.name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


async def needs_resume(scene: Scene) -> None:
    part = await scene.begin("waits", resume={"policy": "OnRequest"})
    await part.with_history()
    part.kill()
    await part.wait(lambda s: s.get("needsResume") is True, "in need of a resume")


async def refused(scene: Scene) -> None:
    part = await scene.begin("refused")
    await part.with_history()
    part.behave("--load-error=-32602:Invalid params:no")
    part.kill()
    await part.failed("ResumeFailed")


async def asking(scene: Scene) -> None:
    part = await scene.begin("asking")
    await part.idle()
    async with part.talk() as it:
        await it.prompt("permission please")
    await part.wait(lambda s: (s.get("turn") or {}).get("awaitingPermission"), "asking")


async def nowhere(scene: Scene) -> None:
    part = await scene.begin("nowhere", worktree=Path("/nowhere/at/all"))
    await part.failed("NotAllowed")


async def unanswered(scene: Scene) -> None:
    part = await scene.begin("unanswered", "--hang-at=initialize")
    await part.wait(lambda s: condition(s, "Ready").get("reason") == "Starting", "being started")


async def calm(scene: Scene) -> None:
    part = await scene.begin("calm")
    await part.with_history()


async def silent(scene: Scene) -> Part:
    part = await scene.begin("silent", lifecycle={"unreachableGraceSeconds": 5})
    await part.with_history()
    return part


EXPECTED: Final = {
    "waits": Trouble.NEEDS_RESUME,
    "refused": Trouble.FAILED,
    "asking": Trouble.AWAITING_PERMISSION,
    "nowhere": Trouble.EXECUTOR_FAILED,
    "unanswered": Trouble.STARTING,
    "silent": Trouble.AGENTCTL_UNREACHABLE,
}


async def test_each_stuck_session_has_its_alert_its_name_and_the_words_of_why(
    scene: Scene, promql: Engine
) -> None:
    mute, *_ = await asyncio.gather(
        silent(scene),
        *(make(scene) for make in (needs_resume, refused, asking, nowhere, unanswered, calm)),
    )
    executor = scene.get("executor", mute.status["executorRef"]["name"])
    pid = executor["status"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        await scene.restart_operator()  # else nobody asks before the stream's heartbeats are missed
        await mute.failed("AgentctlUnreachable", stalled=False)
        page = (await asyncio.to_thread(scene.operator.get, "/metrics"))[1]
        fired = await asyncio.to_thread(played_on, promql, page)
        told = {name: await asyncio.to_thread(why, scene, name) for name in EXPECTED}
    finally:
        os.kill(pid, signal.SIGCONT)
    found = {each.labels["session"]: each for each in fired if "session_namespace" in each.labels}
    assert {name: each.name for name, each in found.items()} == {
        name: trouble.alert for name, trouble in EXPECTED.items()
    }
    assert len(fired) == len(found), [each.name for each in fired]
    for name, alert in found.items():
        assert alert.labels["session_namespace"] == scene.place.name
        assert alert.annotations["summary"].partition(": ")[2] in told[name]
        assert alert.labels["meaning"] in told[name]
        assert alert.annotations["runbook_url"] in told[name]
        assert (ROOT / alert.annotations["runbook_url"]).is_file()


def test_an_operator_without_a_key_is_told_by_its_alert(
    place: Namespace, make_operator: Callable[..., OperatorProcess], promql: Engine
) -> None:
    place.apply(_secret("no key at all"))
    operator = make_operator().start(wait_ready=False)
    end = time.monotonic() + 60
    page = ""
    while f'problem="{Problem.KEY}"}} 1.0' not in page:
        assert time.monotonic() < end, operator.tail()
        time.sleep(0.1)
        try:
            page = operator.get("/metrics")[1]
        except (OSError, LookupError):
            continue
    fired = {each.name: each for each in played_on(promql, page, "5m")}
    assert fired.keys() == {"KandevKeyProblem", "KandevNobodyLeads"}
    assert fired["KandevKeyProblem"].annotations["summary"] == Problem.KEY.doc
    code, said = operator.get("/readyz")
    assert code == 503
    assert "signing key" in said


def _secret(content: str) -> dict[str, Any]:
    data = {"key.pem": base64.b64encode(content.encode()).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME},
        "data": data,
    }
