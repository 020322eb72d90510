"""`kubectl kandev permissions`, `allow`, `deny` and `cancel`: what a turn waits for, or its end.

A request is answered with one of the options that the agent offered and with nothing else, and it
is named in full: its id holds the run of the agent, so an answer can never reach the question of
another one.
"""

import json
from typing import assert_never

from kandev_operator.cli import refusals
from kandev_operator.cli.asking import allowing, how_to_answer, title
from kandev_operator.cli.clock import ago, now
from kandev_operator.cli.commands import Allow, Cancel, Deny, Permissions
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode, Refusal
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.reach import Line, NotServed
from kandev_operator.cli.screen import COMMAND, STRONG
from kandev_operator.cli.seen import read_moment
from kandev_operator.clients import errors
from kandev_operator.contract.agent import Permission, PermissionAnswer


async def of_a_turn(desk: Desk, asked: Permissions | Allow | Deny | Cancel) -> ExitCode:
    """Carry one of them out."""
    match asked:
        case Permissions():
            return await listing(desk, asked)
        case Allow():
            return await allow(desk, asked)
        case Deny():
            return await deny(desk, asked)
        case Cancel():
            return await cancel(desk, asked)
        case _:
            assert_never(asked)


async def listing(desk: Desk, asked: Permissions) -> ExitCode:
    """Show the open requests."""
    line = await _line(desk, asked.session)
    found = await _open(line)
    if not found and not asked.as_json:
        desk.screen.note("the agent waits for no permission")
    for permission in found:
        if asked.as_json:
            desk.screen.say(json.dumps(permission.model_dump(mode="json")))
        else:
            _show(desk, asked.session, permission)
    return ExitCode.OK


async def allow(desk: Desk, asked: Allow) -> ExitCode:
    """Grant a request, with the option that was named or the one that permits least."""
    line = await _line(desk, asked.session)
    permission = await _find(line, asked.permission_id)
    option = allowing(permission.options)
    if asked.option is not None:
        wanted = (each for each in permission.options if each.option_id == asked.option)
        option = next(wanted, None)
    if option is None:
        offered = ", ".join(one_line(each.option_id) for each in permission.options)
        missing = f"no option {asked.option}" if asked.option else "no option that allows it"
        raise Refusal(
            f"the agent offers {missing}", f"It offers: {offered or 'nothing'}. See --option."
        )
    await _answer(line, permission, option.option_id)
    desk.screen.say(f"Answered with {one_line(option.name)}: {title(permission)}")
    return ExitCode.OK


async def deny(desk: Desk, asked: Deny) -> ExitCode:
    """Refuse a request."""
    line = await _line(desk, asked.session)
    permission = await _find(line, asked.permission_id)
    await _answer(line, permission, None)
    desk.screen.say(f"Refused: {title(permission)}")
    return ExitCode.OK


async def cancel(desk: Desk, asked: Cancel) -> ExitCode:
    """Cut off the turn under way. None being there is what was wanted, too."""
    line = await _line(desk, asked.session)
    try:
        report = await line.client.status(with_token=False)
        if report.turn is None:
            desk.screen.say("No turn is under way.")
            return ExitCode.OK
        await line.client.cancel(line.session.metadata.uid)
    except errors.AgentctlError as error:
        raise line.fault(error) from error
    desk.screen.say("The agent is asked to stop its turn.")
    return ExitCode.OK


async def _line(desk: Desk, name: str) -> Line:
    try:
        return await desk.reach.line(name)
    except NotServed as why:
        raise refusals.not_served(why, why.session, now()) from why


async def _open(line: Line) -> tuple[Permission, ...]:
    try:
        return await line.client.permissions()
    except errors.AgentctlError as error:
        raise line.fault(error) from error


async def _find(line: Line, permission_id: str) -> Permission:
    found = await _open(line)
    for permission in found:
        if permission.permission_id == permission_id:
            return permission
    names = ", ".join(one_line(each.permission_id) for each in found)
    raise Refusal(
        f"no request {permission_id} is open: it is answered, or its turn is over",
        f"Open: {names}" if names else "The agent waits for no permission.",
    )


async def _answer(line: Line, permission: Permission, option_id: str | None) -> None:
    answer = PermissionAnswer(option_id=option_id)
    try:
        await line.client.answer_permission(permission.permission_id, answer)
    except errors.AgentctlError as error:
        raise line.fault(error) from error


def _show(desk: Desk, session: str, permission: Permission) -> None:
    asked = read_moment(permission.requested_at)
    when = f" asked {ago(asked, now())}" if asked is not None else ""
    desk.screen.parts((one_line(permission.permission_id), STRONG), (when, ""))
    desk.screen.say(f"  {title(permission)}")
    for option in permission.options:
        name, kind = one_line(option.name), one_line(option.kind, 40)
        desk.screen.say(f"  option {one_line(option.option_id)}: {name} [{kind}]")
    for command in how_to_answer(desk, session, permission):
        desk.screen.say(f"  {command}", COMMAND)
