"""`kubectl kandev why`: reads the objects, has them explained, and lays the explanation out.

Everything that is said is `explain`'s. It is read in one go, top to bottom: what is, why, what
comes next, what you can do.
"""

from kandev_operator.cli.clock import now
from kandev_operator.cli.commands import Why
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.explain import Cause, Explanation, explain
from kandev_operator.cli.faults import ExitCode
from kandev_operator.cli.leader import NobodyLeads
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.screen import COMMAND, DIM, STRONG, WARNING, Screen


async def why(desk: Desk, asked: Why) -> ExitCode:
    """Explain a session."""
    session = await desk.cluster.session(asked.session)
    leader = await desk.leader()
    if isinstance(leader, NobodyLeads):
        session = await desk.cluster.session(asked.session)  # that look took its time
    executor, task, profile = await desk.cluster.surroundings(session)
    show(desk.screen, explain(session, executor, task, profile, now(), leader))
    return ExitCode.OK


def show(screen: Screen, told: Explanation) -> None:
    """Lay it out."""
    screen.say(told.headline, STRONG)
    if told.caution:
        screen.say(told.caution, WARNING)
    if told.facts:
        screen.say("")
    wide = max((len(fact.label) for fact in told.facts), default=0)
    for fact in told.facts:
        screen.parts((f"  {fact.label:<{wide}}  ", DIM), (one_line(fact.words, 2000), ""))
    if told.causes:
        screen.say("")
        screen.say("Why", STRONG)
    for cause in told.causes:
        _cause(screen, cause)
    screen.say("")
    screen.say("What the operator does next", STRONG)
    for line in told.outlook:
        screen.say(f"  {line}")
    screen.say("")
    screen.say("What you can do", STRONG)
    for step in told.steps:
        screen.say(f"  {step.text}")
        if step.command is not None:
            screen.say(f"    {step.command}", COMMAND)


def _cause(screen: Screen, cause: Cause) -> None:
    since = f" ({cause.since})" if cause.since else ""
    screen.parts((f"  {cause.condition}: ", DIM), (cause.reason, STRONG), (since, DIM))
    screen.say(f"    {cause.meaning}")
    if cause.message:
        screen.say(f"    {one_line(cause.message, 2000)}")
