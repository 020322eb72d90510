"""A fleet in Git, as the example shows it: members that stay, and sessions that come and go."""

import asyncio
import json
from pathlib import Path

import yaml

from stage.podscene import PodScene, until
from stage.sessions import Body, condition
from stage.verdicts import ask

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
MEMBERS = {"small-1", "small-2", "large-1"}


def named(name: str) -> Body:
    """The example's session and its task, under this name."""
    (path,) = EXAMPLES.glob("10-*.yaml")
    bodies = list(yaml.safe_load_all(path.read_text()))
    for body in bodies:
        body["metadata"]["name"] = name
        if body["kind"] == "TaskSession":
            body["spec"]["taskRef"]["name"] = name
    return {"apiVersion": "v1", "kind": "List", "items": bodies}


async def test_the_fleet_of_the_example_takes_sessions_and_keeps_its_members(
    pods: PodScene,
) -> None:
    rendered = await pods.kubectl("kustomize", str(EXAMPLES / "fleet"))
    part, other = pods.part("flaky-tests"), pods.part("second")
    bodies = list(yaml.safe_load_all(rendered))
    for body in bodies:
        if body["kind"] == "AgentProfile":
            body["spec"]["command"] = part.command()
            body["spec"]["args"] = []
            del body["spec"]["env"]
    git = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    await pods.kubectl("apply", "--server-side", "-f", "-", stdin=git)
    for name in MEMBERS:
        await pods.executor_becomes(
            name, lambda s: condition(s, "Ready").get("reason") == "Idle", "at rest and ready"
        )
    assert pods.listed("pods") == [], "a member that holds nobody costs nothing"
    assert {each.kstatus for each in ask(pods.listed("executors"))} == {"Current"}

    for name in (part.name, other.name):
        await pods.kubectl("apply", "-f", "-", stdin=json.dumps(named(name)))
        if name == part.name:
            await part.wait(
                lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "prompted"
            )
            await part.idle()
    await other.wait(
        lambda s: condition(s, "ExecutorReady").get("reason") == "ExecutorBusy", "waiting its turn"
    )
    (pod,) = pods.pods(part)
    agent = next(each for each in pod["spec"]["containers"] if each["name"] == "agent")
    assert agent["resources"]["limits"]["memory"] == "16Gi", "as Git has it"

    part.remember_uid()
    await pods.kubectl("delete", "tasksession", part.name, "--timeout=60s")
    await other.idle()
    assert {each["metadata"]["name"] for each in pods.listed("executors")} == MEMBERS
    await until(lambda: not pods.pods(part), "the first one's pod is gone")
    again = await pods.kubectl("diff", "--server-side", "-f", "-", stdin=git)
    assert again == "", "Git sees no difference"
    await asyncio.to_thread(pods.place.kubectl, "delete", "tasksession", other.name)
