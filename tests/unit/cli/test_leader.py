"""Whether an operator leads: its Lease is read, watched where it looks old, never guessed at."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kandev_operator.api.session import TaskSession
from kandev_operator.cli import leader
from kandev_operator.cli.clock import now
from kandev_operator.cli.commands import Why
from kandev_operator.cli.explain import explain
from kandev_operator.cli.faults import ExitCode
from kandev_operator.cli.leader import Leader, Leads, NobodyLeads, NotKnown
from unit.cli.bodies import NAME, NOON, NS, Json, a_session, condition, lease, session_body
from unit.cli.stage import Stage, until
from unit.cli.statuses import text

SYSTEM = "kandev-system"
OLD = timedelta(minutes=12)


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_SLACK_SECONDS", 0.0)


async def look(stage: Stage) -> Leader:
    return await leader.look(stage.desk.cluster.kube, SYSTEM, NS, poll=0.02)


async def renewing(body: Json) -> None:
    """A leader whose clock is two hours late."""
    while True:
        await asyncio.sleep(0.05)
        body["spec"] = lease(timedelta(hours=2))["spec"]


async def test_a_lease_that_was_just_renewed(stage: Stage) -> None:
    stage.api.put("leases", lease(timedelta(milliseconds=100)), SYSTEM)
    assert await look(stage) == Leads(SYSTEM)


async def test_a_namespaced_operator_leads_beside_the_session(stage: Stage) -> None:
    stage.api.put("leases", lease(OLD), SYSTEM)
    stage.api.put("leases", lease(timedelta(milliseconds=100)), NS)
    assert await look(stage) == Leads(NS)


async def test_nobody_renews_it(stage: Stage) -> None:
    stage.api.put("leases", lease(OLD), SYSTEM)
    found = await look(stage)
    assert isinstance(found, NobodyLeads)
    assert (found.namespace, found.released) == (SYSTEM, False)
    assert found.since is not None
    assert now() - found.since >= OLD


async def test_of_two_that_nobody_renews_the_later_is_told(stage: Stage) -> None:
    stage.api.put("leases", lease(timedelta(days=3)), SYSTEM)
    stage.api.put("leases", lease(OLD), NS)
    found = await look(stage)
    assert isinstance(found, NobodyLeads)
    assert found.namespace == NS


async def test_a_lease_that_was_given_back(stage: Stage) -> None:
    stage.api.put("leases", lease(timedelta(milliseconds=100), holder=""), SYSTEM)
    found = await look(stage)
    assert isinstance(found, NobodyLeads)
    assert found.released


async def test_clocks_that_differ_do_not_make_an_operator_vanish(stage: Stage) -> None:
    body = stage.api.put("leases", lease(timedelta(hours=2)), SYSTEM)
    writer = asyncio.create_task(renewing(body))
    try:
        assert await look(stage) == Leads(SYSTEM)
    finally:
        writer.cancel()


async def test_no_lease_is_no_proof(stage: Stage) -> None:
    found = await look(stage)
    assert isinstance(found, NotKnown)
    assert f"{SYSTEM} or {NS}" in found.why


async def test_a_lease_that_may_not_be_read_is_no_proof(stage: Stage) -> None:
    stage.api.put("leases", lease(OLD), SYSTEM)
    stage.api.forbidden.add("leases")
    found = await look(stage)
    assert isinstance(found, NotKnown)
    assert "may not be read" in found.why


async def test_an_api_server_that_goes_away_in_between_is_no_proof(stage: Stage) -> None:
    stage.api.put("leases", lease(OLD), SYSTEM)
    looking = asyncio.create_task(look(stage))
    await until(lambda: stage.api.reads > 0)
    stage.api.broken = True
    found = await looking
    assert isinstance(found, NotKnown)
    assert "cannot be read" in found.why


@pytest.mark.parametrize(
    "spec", [{}, {"renewTime": "soon"}, {"renewTime": 3, "leaseDurationSeconds": "long"}], ids=str
)
async def test_a_lease_that_somebody_else_made_is_watched(
    stage: Stage, spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "_USUAL_SECONDS", 0.3)
    stage.api.put("leases", lease(OLD) | {"spec": {"holderIdentity": "x", **spec}}, SYSTEM)
    found = await look(stage)
    assert isinstance(found, NobodyLeads)
    assert found.since is None


async def test_why_says_that_no_operator_runs(stage: Stage) -> None:
    stage.api.put("leases", lease(OLD), SYSTEM)
    assert await stage.play(Why(NAME)) == ExitCode.OK
    for words in (
        "No operator runs: nobody has renewed the Lease kandev-operator in namespace kandev-system",
        "12 minutes",
        "may be out of date",
        "Nothing, until an operator runs again",
        "kubectl get pods -n kandev-system",
    ):
        assert words in stage.said


async def test_why_says_nothing_of_it_while_one_runs(stage: Stage) -> None:
    stage.api.put("leases", lease(timedelta()), SYSTEM)
    await stage.play(Why(NAME))
    assert "No operator" not in stage.said
    assert "Whether an operator" not in stage.said


def told(body: Json, found: Leader) -> str:
    return text(explain(TaskSession.from_body(body), None, None, None, NOON, found))


def test_not_knowing_is_said_only_where_something_waits_for_an_operator() -> None:
    unknown = NotKnown("There is no Lease.")
    assert "cannot be seen" not in told(session_body(), unknown)
    unseen = session_body([], None) | {"status": {"observedGeneration": -1}}
    assert "cannot be seen. There is no Lease." in told(unseen, unknown)
    wished = session_body()
    wished["metadata"]["annotations"] = {"kandev.dev/resume-requested": "new"}
    assert "--operator-namespace" in told(wished, unknown)


def test_nobody_is_said_to_be_at_it_while_nobody_is() -> None:
    rows = [condition("Ready", "False", "Resuming"), condition("Reconciling", "True", "Resuming")]
    left = NobodyLeads("ops", None, released=True)
    said = told(session_body(rows), left)
    assert "the operator is at it" not in said
    assert "ended as it was told to" in said
    assert "kubectl get pods -n ops" in said
    assert "the operator is at it" in told(session_body(rows), Leads("ops"))


def test_an_explanation_without_a_look_at_the_lease() -> None:
    assert explain(a_session(), None, None, None, NOON).caution == ""
