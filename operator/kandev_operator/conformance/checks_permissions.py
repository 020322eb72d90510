"""Permission requests: listed, told, answered once, and closed with what they belong to."""

from typing import Final

from pydantic import TypeAdapter

from kandev_operator.conformance.checks_access import refused
from kandev_operator.conformance.checks_prompts import calm
from kandev_operator.conformance.musts import must, need
from kandev_operator.conformance.target import Target
from kandev_operator.contract import paths
from kandev_operator.contract.agent import Permission
from kandev_operator.contract.errors import Code

PERMISSIONS: Final = "permissions"
_LIST: Final = TypeAdapter(list[Permission])


async def listed(target: Target) -> list[Permission]:
    answer = await target.call("GET", paths.PERMISSIONS)
    need(answer.status == 200, f"/permissions answers {answer}")
    return _LIST.validate_json(answer.body)


async def asked(target: Target) -> tuple[str, Permission]:
    """The agent waits for an answer; gives the prompt and the request."""
    await target.opened()
    await calm(target)
    prompt_id = await target.prompted("ask")

    async def look() -> Permission | None:
        found = await listed(target)
        return found[0] if found else None

    return prompt_id, await target.eventually(look, "a permission request")


async def answered(target: Target, permission_id: str, option: str | None) -> int:
    body = {} if option is None else {"option_id": option}
    return (await target.call("POST", f"{paths.PERMISSIONS}/{permission_id}", body)).status


@must("C-100", PERMISSIONS, "An open request is listed with its options, and shows in status.")
async def is_listed(target: Target) -> str:
    _, permission = await asked(target)
    kinds = [o.kind for o in permission.options]
    need(kinds == ["allow_once", "reject_once"], f"the options' kinds are {kinds}")
    status = await target.status()
    need(status.permissions == 1, f"status counts {status.permissions}")
    waits = status.turn is not None and status.turn.awaiting_permission
    need(waits, "the turn is not shown as waiting")
    need(status.turn and permission.turn_id == status.turn.turn_id, "it names another turn")
    await target.ask("POST", paths.CANCEL)
    return "listed, counted, shown"


@must("C-101", PERMISSIONS, "The option chosen reaches the agent.")
async def chosen(target: Target) -> str:
    for option in ("allow_once", "reject_once"):
        mark = await target.mark()
        prompt_id, permission = await asked(target)
        status = await answered(target, permission.permission_id, option)
        need(status == 202, f"the answer got {status}")
        await target.turn_end(prompt_id)
        said = await target.words(mark)
        need(said.endswith(f"selected {option}"), f"the agent says {said[-60:]!r}")
    return "allow and reject both arrive"


@must("C-102", PERMISSIONS, "Leaving the option out refuses.")
async def left_out(target: Target) -> str:
    mark = await target.mark()
    prompt_id, permission = await asked(target)
    need(await answered(target, permission.permission_id, None) == 202, "it is not taken")
    await target.turn_end(prompt_id)
    said = await target.words(mark)
    need("allow" not in said, f"the agent says {said[:100]!r}")
    return "the agent was refused"


@must("C-103", PERMISSIONS, "A request that is not open is 404 unknown_permission.")
async def unknown(target: Target) -> str:
    await target.configured()
    answer = await target.call("POST", paths.PERMISSIONS + "/none", {"option_id": "allow_once"})
    return refused(answer, Code.UNKNOWN_PERMISSION)


@must("C-104", PERMISSIONS, "An option that the agent did not offer is refused with 400.")
async def not_offered(target: Target) -> str:
    _, permission = await asked(target)
    path = f"{paths.PERMISSIONS}/{permission.permission_id}"
    answer = await target.call("POST", path, {"option_id": "allow_everything"})
    seen = refused(answer, Code.INVALID_REQUEST)
    need(len(await listed(target)) == 1, "and it is not open any more")
    await target.ask("POST", paths.CANCEL)
    return seen


@must("C-105", PERMISSIONS, "A request is answered once; the second answer is 404.")
async def twice(target: Target) -> str:
    prompt_id, permission = await asked(target)
    path = f"{paths.PERMISSIONS}/{permission.permission_id}"
    await target.ask("POST", path, {"option_id": "allow_once"})
    answer = await target.call("POST", path, {"option_id": "reject_once"})
    await target.turn_end(prompt_id)
    return refused(answer, Code.UNKNOWN_PERMISSION)


@must("C-106", PERMISSIONS, "A cancel closes what is open, and the stream tells both ends of it.")
async def closed(target: Target) -> str:
    await target.opened()
    mark = await target.mark()
    prompt_id, permission = await asked(target)
    await target.ask("POST", paths.CANCEL)
    await target.turn_end(prompt_id)
    need(await listed(target) == [], "it is still open")
    told = [
        (event.kind.value, event.data)
        for event in await target.events(mark)
        if event.kind in ("permission_requested", "permission_resolved")
    ]
    kinds = [kind for kind, _ in told]
    need(kinds == ["permission_requested", "permission_resolved"], f"events {kinds}")
    need(told[0][1]["permission"]["permission_id"] == permission.permission_id, "of another one")
    need(told[1][1]["outcome"] == "cancelled", f"outcome {told[1][1].get('outcome')!r}")
    return "requested, then resolved as cancelled"


@must("C-107", PERMISSIONS, "Policy AllowAll answers by itself.")
async def by_policy(target: Target) -> str:
    await target.opened(permission_policy="AllowAll")
    mark = await target.mark()
    await target.turn_end(await target.prompted("ask"))
    said = await target.words(mark)
    await target.stopped()
    need(said == "selected allow_once", f"the agent says {said[:100]!r}")
    return "allowed without a caller"
