"""How many writes does a session cost, from `apply` on? Counted from the audit log.

Real agentctl processes, the scripted agent, one namespace for each session; then light agentctls,
where a plain kopf operator does the same job. The budgets are promises to whoever pays for etcd:
a count over its goal fails the run. How long it takes is not asked here.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.crowd import Sidecars, bodies, settle_in
from benchmarks.ground import LEASES, Ground, PlainKopf
from benchmarks.report import Metric
from kandev_operator.contract.agent import PermissionAnswer
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, fake_agent, profile, session, task
from stage.talk import Talk, talk
from stage.writes import Written, when_quiet

SESSIONS = 3
TURN = "slow 12"
ASKING = "permission"
SLOWLY = fake_agent("--tick=0.1")


def run(say: Callable[[str], None]) -> list[Metric]:
    """Measure everything; the worst of the sessions counts."""
    with Ground() as ground, Sidecars() as sidecars:
        return [*_real(ground, say), *_beside_kopf(ground, sidecars, say)]


def _real(ground: Ground, say: Callable[[str], None]) -> list[Metric]:
    """Real agentctls on this machine."""
    say("sessions with a template, and with an executor of their own")
    made = [ground.namespace() for _ in range(SESSIONS)]
    kept = [ground.namespace() for _ in range(SESSIONS)]
    operator = ground.operator([*made, *kept]).start()
    with ThreadPoolExecutor(SESSIONS) as threads:
        lives = list(threads.map(lambda place: _life(ground, place, named=False), made))
        named = list(threads.map(lambda place: _life(ground, place, named=True), kept))
    say("a restart with nothing changed")
    again = _restart(ground, [*made, *kept], operator)
    operator.kill()
    births = [life[0] for life in lives]
    say("apply to idle is:\n" + births[0].listed())
    return [
        _worst("apply to idle", births, 9),
        _worst("apply to idle, executor.ref", [life[0] for life in named], 8),
        _worst("a turn", [life[1] for life in (*lives, *named)], 2),
        _worst("a turn with a permission asked", [life[2] for life in (*lives, *named)], 4),
        Metric("Events of a session", max(len(each.events) for each in births), "", "count", 2),
        Metric("operator restart", again.count + len(again.events), "", "count", 0),
        Metric("operator restart: Tasks and others", _beside(again), "", "count", 0),
    ]


def _beside_kopf(ground: Ground, sidecars: Sidecars, say: Callable[[str], None]) -> list[Metric]:
    """The same on light agentctls, where the plain operator can do it too."""
    say("the same on light agentctls, by this operator and by a plain one")
    ours, theirs = ground.namespace(), ground.namespace()
    operator = ground.operator([ours]).start()
    plain = ground.plain(theirs).start()
    try:
        mine = _remote(ground, sidecars, ours, 0, operator)
        other = _remote(ground, sidecars, theirs, 1, plain)
    except AssertionError as error:
        raise AssertionError(f"{error}\n--- plain kopf ---\n{plain.tail()}") from None
    names = ("apply to idle", "a turn", "operator restart")
    goals = (9, 2, 0)
    return [
        Metric(f"Remote: {name}: writes", span.count, "", "count", goal, base.count)
        for name, goal, span, base in zip(names, goals, mine, other, strict=True)
    ]


def _remote(
    ground: Ground,
    sidecars: Sidecars,
    place: Namespace,
    number: int,
    operator: OperatorProcess | PlainKopf,
) -> tuple[Written, Written, Written]:
    audit = ground.cluster.audit
    mark = audit.mark()
    settle_in(ground, place, bodies(sidecars, number, 1))
    place.wait_idle(f"s{number}")
    birth = when_quiet(audit, mark, [place.name])
    mark = audit.mark()
    sidecars.prompt(number)
    turn = when_quiet(audit, mark, [place.name])
    mark = audit.mark()
    sidecars.count_anew()
    operator.kill()
    operator.start()
    while not sidecars.calls().asked:
        time.sleep(0.1)
    return birth, turn, when_quiet(audit, mark, [place.name])


def _worst(name: str, spans: Sequence[Written], goal: int) -> Metric:
    return Metric(f"{name}: writes", max(each.count for each in spans), "", "count", goal)


def _beside(span: Written) -> int:
    return len(span.tasks) + len(span.others)


def _life(ground: Ground, place: Namespace, *, named: bool) -> tuple[Written, Written, Written]:
    """One session from apply on: until it is idle, a turn, a turn that asks a permission."""
    mark = begin(ground, place, named=named)
    place.wait_idle("s")
    birth = when_quiet(ground.cluster.audit, mark, [place.name])
    turn = asyncio.run(_spoken(ground, place, _turn))
    return birth, turn, asyncio.run(_spoken(ground, place, _asked))


def begin(ground: Ground, place: Namespace, *, named: bool) -> int:
    """Apply a session; the mark in the log before it."""
    place.apply(profile(command=SLOWLY), task())
    audit = ground.cluster.audit
    if named:
        place.apply(_executor(place))
        place.wait("own", lambda s: s.get("state") == "ready", "ready", kind="executor")
        when_quiet(audit, audit.mark(), [place.name])
    mark = audit.mark()
    ref = {"ref": {"name": "own"}} if named else None
    place.apply(session("s", place.worktree("s"), executor=ref))
    return mark


def _executor(place: Namespace) -> dict[str, object]:
    local = {"worktreePath": str(place.worktree("s"))}
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "own"},
        "spec": {"runtime": "LocalStandalone", "localStandalone": local},
    }


async def _spoken(
    ground: Ground, place: Namespace, say: Callable[[Talk], Awaitable[None]]
) -> Written:
    """What was written while something was said, until it was quiet again."""
    mark = ground.cluster.audit.mark()
    kubeconfig = ground.cluster.kubeconfig
    async with talk(kubeconfig, place.name, "s", operator_namespace=LEASES) as spoken:
        await say(spoken)
    return await asyncio.to_thread(when_quiet, ground.cluster.audit, mark, [place.name])


async def _turn(spoken: Talk) -> None:
    await spoken.ask(TURN)


async def _asked(spoken: Talk) -> None:
    """A turn in which the agent asks; a person thinks for a second before the answer."""
    prompt_id = uuid.uuid4().hex
    await spoken.prompt(f"{ASKING} {TURN}", prompt_id)
    await spoken.until(lambda report: report.permissions > 0)
    await asyncio.sleep(1.0)
    for each in await spoken.client.permissions():
        choice = PermissionAnswer(option_id=each.options[0].option_id)
        await spoken.client.answer_permission(each.permission_id, choice)
    async with asyncio.timeout(60):
        await spoken.turn_ended(prompt_id)


def _restart(ground: Ground, places: Sequence[Namespace], operator: OperatorProcess) -> Written:
    audit = ground.cluster.audit
    mark = audit.mark()
    operator.kill()
    operator.start()
    return when_quiet(audit, mark, [LEASES, *(place.name for place in places)])
