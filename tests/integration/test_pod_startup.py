"""Pods that do not come up: what is said meanwhile, and how each is mended without deleting it."""

import subprocess
from pathlib import Path

from stage.podscene import IMAGE, PodScene, template, until
from stage.sessions import Body, condition


async def test_b038_a_volume_that_comes_late_is_waited_for(pods: PodScene) -> None:
    late = {"name": "settings", "configMap": {"name": "late"}}
    mount = {"name": "settings", "mountPath": "/settings"}
    overlay = {"volumes": [late], "containers": [{"name": "agent", "volumeMounts": [mount]}]}
    part = await pods.born("late", executor=template(overlay))
    seen: list[Body] = []

    def told(status: Body) -> bool:
        seen.append(status)
        return "FailedMount" in condition(status, "Ready").get("message", "")

    await part.wait(told, "told in the kubelet's words", 90)
    await pods.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
    await part.idle(90)
    assert "ERROR" not in {each.get("state") for each in seen}
    assert (len(pods.pods(part)), part.starts) == (1, 1)


async def test_b026_an_init_script_that_fails_is_named_and_mended(pods: PodScene) -> None:
    setup = {"name": "setup", "image": IMAGE, "command": ["sh", "-c", "echo no licence; exit 7"]}
    part = await pods.born("script", executor=template({"initContainers": [setup]}))
    status = await part.failed("InitFailed", stalled=False)
    assert "Init container setup ended with exit code 7" in status["errorMessage"]
    assert "no licence" in status["errorMessage"]
    well = {**setup, "command": ["true"]}
    await part.patch(executor=template({"initContainers": [well]}))
    now = await part.idle(90)
    assert "errorMessage" not in now
    assert (len(pods.pods(part)), part.starts) == (1, 1)


async def test_a_clone_that_fails_is_mended_by_its_task(pods: PodScene, tmp_path: Path) -> None:
    origin = _repository(tmp_path)
    part = await pods.born("clone", operatingMode="Suspended")
    code = {"name": "code", "url": f"file://{tmp_path}/nowhere"}
    await part.repair("task", {"repositories": [code]})
    await part.patch(operatingMode="Running")
    status = await part.failed("CloneFailed", stalled=False)
    assert "Init container kandev-workspace ended with exit code 1" in status["errorMessage"]
    await part.repair("task", {"repositories": [{**code, "url": f"file://{origin}"}]})
    now = await part.idle(90)
    assert now["worktree"]["branch"] == "kandev/clone"
    await until(lambda: len(pods.pods(part)) == 1, "one pod")


def _repository(folder: Path) -> Path:
    origin = folder / "origin"
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for words in (
        ("init", "-q", "-b", "main", str(origin)),
        ("-C", str(origin), *who, "commit", "-q", "--allow-empty", "-m", "first"),
    ):
        subprocess.run(["git", *words], check=True, capture_output=True)
    return origin
