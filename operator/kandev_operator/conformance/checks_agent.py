"""What to run, its capabilities, and the operations that start, resume and stop it."""

from typing import Final

from kandev_operator.conformance.checks_access import health_of, refused
from kandev_operator.conformance.musts import NotApplicable, must, need
from kandev_operator.conformance.target import Target
from kandev_operator.contract import paths
from kandev_operator.contract.agent import AgentAnswer
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.status import (
    AgentStatus,
    Capabilities,
    Operation,
    OperationState,
    StatusReport,
)

AGENT: Final = "agent"
OPERATIONS: Final = "operations"
PROTOCOL: Final = 1
"""What the suite's agent answers to `initialize`."""
VERSION: Final = "protocol_version"


async def capabilities(target: Target, profile_hash: str) -> Capabilities:
    """The capabilities of this configuration, once they are known."""

    async def look() -> Capabilities | None:
        answer = await target.call("GET", paths.CAPABILITIES)
        need(answer.status == 200, f"/capabilities answers {answer}")
        told = answer.fits(Capabilities)
        return told if told.profile_hash == profile_hash and told.probed_at else None

    return await target.eventually(look, "the capabilities")


async def fresh(target: Target, **changes: object) -> str:
    """A new configuration with no agent alive; gives its hash."""
    await target.configured()
    await target.stopped(grace_seconds=2)
    return str((await target.configured(**changes))["profile_hash"])


@must("C-040", AGENT, "PUT agent serves the session named and answers its journal.")
async def put_agent(target: Target) -> str:
    body = target.spec()
    answer = await target.call("PUT", paths.AGENT, body)
    need(answer.status == 200, f"got {answer}")
    told = answer.fits(AgentAnswer)
    need(told.session_id == target.session and told.journal_id, f"got {told}")
    need(told.profile_hash == body["profile_hash"], "another profile_hash is answered")
    need(told.changed, "a new configuration is called no change")
    return "changed"


@must(
    "C-041", AGENT, "PUT agent with the same profile_hash changes nothing, whatever else it says."
)
async def put_again(target: Target) -> str:
    body = target.spec(profile_hash=await fresh(target))
    await capabilities(target, body["profile_hash"])
    before = (await target.status()).agent
    answer = await target.call("PUT", paths.AGENT, {**body, "command": "/another/command"})
    need(answer.status == 200 and not answer.fits(AgentAnswer).changed, f"got {answer}")
    after = (await target.status()).agent
    need(before.execution_id == after.execution_id, "another process was started")
    return "not changed, the same process"


@must("C-042", AGENT, "Capabilities are those of a real initialize of this configuration.")
async def probed(target: Target) -> str:
    told = await capabilities(target, await fresh(target))
    need(told.failure is None, f"the probe failed: {told.failure}")
    need(told.agent is not None, "the agent's name is missing")
    need(told.load_session is not None, "load_session is not known after a probe")
    either = bool(told.load_session or told.resume_session)
    need(told.supports_session_resume == either, "supports_session_resume is not what it declares")
    version, why = told.protocol_version, told.unknown.get(VERSION)
    if version is None:
        need(why, "protocol_version is absent, and unknown does not say why")
    else:
        need(why is None, f"protocol_version is {version}, and unknown says that it is not known")
        need(version == PROTOCOL, f"protocol_version is {version}, agreed on was {PROTOCOL}")
    return f"{told.agent.name if told.agent else ''}, protocol {version}, load {told.load_session}"


@must("C-047", AGENT, "An agent of another protocol version is a probe's failure, not made to fit.")
async def another_protocol(target: Target) -> str:
    seen = await capabilities(target, await fresh(target))
    told = await capabilities(target, await fresh(target, env={"CONFORMANCE_PROTOCOL": "999"}))
    need(told.protocol_version in (None, 999), f"protocol_version is {told.protocol_version}")
    if seen.protocol_version is None and (why := seen.unknown.get(VERSION)):
        raise NotApplicable(f"protocol_version is not known: {why}")
    need(told.failure is not None, "no failure is told")
    return f"failure {told.failure.code if told.failure else ''}"


@must("C-043", AGENT, "supports_workspace_only is known at once, before any agent ran.")
async def workspace_only(target: Target) -> str:
    await target.configured()
    told = (await target.call("GET", paths.CAPABILITIES)).fits(Capabilities)
    need(told.supports_workspace_only is not None, "it is absent")
    return str(told.supports_workspace_only)


@must("C-044", AGENT, "A command that cannot be run is a probe's failure; /health stays ok.")
async def no_command(target: Target) -> str:
    told = await capabilities(target, await fresh(target, command="/no/such/command", args=[]))
    need(told.failure is not None, "no failure is told")
    health = await health_of(target)
    need(health.status == "ok", f"/health is {health.status}")
    return f"failure {told.failure.code if told.failure else ''}, health ok"


@must(
    "C-045", AGENT, "Another session is refused with 409 while an agent lives; details name ours."
)
async def another_session(target: Target) -> str:
    await target.opened()
    answer = await target.call("PUT", paths.AGENT, target.spec(session_id="another-session"))
    refused(answer, Code.SESSION_CONFLICT)
    need(answer.details().get("session_id") == target.session, "details name another session")
    return "409 session_conflict"


@must("C-046", AGENT, "A body about another session than the token's is refused.")
async def token_and_body(target: Target) -> str:
    answer = await target.call("PUT", paths.AGENT, target.spec(), session="another-session")
    return refused(answer, Code.INVALID_REQUEST)


@must("C-050", OPERATIONS, "A start answers 202 with its operation and comes to an outcome.")
async def start(target: Target) -> str:
    await fresh(target)
    body = target.start_body()
    answer = await target.call("POST", paths.START, body)
    need(answer.status == 202, f"got {answer}")
    told = answer.fits(Operation)
    need((told.operation_id, told.kind) == (body["operation_id"], "start"), f"got {told}")
    ended = await target.outcome(told.operation_id)
    need(ended.state is OperationState.SUCCEEDED, f"it {ended.state}: {ended.failure}")
    need(ended.execution_id and ended.method, "the outcome lacks execution_id or method")
    status = await target.status()
    need(status.agent.status is AgentStatus.IDLE, f"the agent is {status.agent.status}")
    return f"succeeded by {ended.method}"


@must("C-051", OPERATIONS, "The same start again answers the same operation and starts nothing.")
async def start_again(target: Target) -> str:
    await fresh(target)
    body = target.start_body()
    first = (await target.ask("POST", paths.START, body)).fits(Operation)
    ended = await target.outcome(first.operation_id)
    answer = await target.call("POST", paths.START, body)
    need(answer.status == 202, f"got {answer}")
    again = answer.fits(Operation)
    need(again == ended, "another operation is answered")
    status = await target.status()
    need(status.agent.execution_id == ended.execution_id, "another process was started")
    count = sum(o.operation_id == first.operation_id for o in status.operations)
    need(count == 1, f"it is listed {count} times")
    return "the same outcome"


@must("C-052", OPERATIONS, "An operation id that comes again with another request is id_reused.")
async def start_reused(target: Target) -> str:
    await fresh(target)
    body = target.start_body()
    await target.ask("POST", paths.START, body)
    await target.outcome(body["operation_id"])
    for change in ({"mode": "resume", "resume_token": "x"}, {"mcp_servers": [{"name": "m"}]}):
        refused(await target.call("POST", paths.START, {**body, **change}), Code.ID_REUSED)
    stop = target.stop_body(operation_id=body["operation_id"])
    return refused(await target.call("POST", paths.STOP, stop), Code.ID_REUSED)


@must("C-053", OPERATIONS, "A second start while one is under way is 409, details name the first.")
async def two_starts(target: Target) -> str:
    await fresh(target, env={"CONFORMANCE_OPEN_DELAY": "3"})
    first = target.start_body()
    await target.ask("POST", paths.START, first)
    answer = await target.call("POST", paths.START, target.start_body())
    refused(answer, Code.OPERATION_CONFLICT)
    told = answer.details().get("operation_id")
    need(told == first["operation_id"], f"details name {told!r}")
    await target.stopped(grace_seconds=2)
    return "409 operation_conflict"


@must("C-054", OPERATIONS, "A stop supersedes a start under way, which then has failed.")
async def superseded(target: Target) -> str:
    await fresh(target, env={"CONFORMANCE_OPEN_DELAY": "30"})
    body = target.start_body()
    await target.ask("POST", paths.START, body)
    await target.stopped(grace_seconds=2)
    ended = await target.outcome(body["operation_id"])
    need(ended.state is OperationState.FAILED, f"the start {ended.state}")
    need(ended.failure is not None, "no failure is told")
    return f"failure {ended.failure.code if ended.failure else ''}"


@must("C-055", OPERATIONS, "Mode resume without a token is refused with 400.")
async def resume_nothing(target: Target) -> str:
    await target.configured()
    body = target.start_body(mode="resume")
    return refused(await target.call("POST", paths.START, body), Code.INVALID_REQUEST)


@must("C-056", OPERATIONS, "A conversation that the agent does not have is a failed operation.")
async def resume_unknown(target: Target) -> str:
    await fresh(target)
    body = target.start_body(mode="resume", resume_token="no-such-conversation")
    await target.ask("POST", paths.START, body)
    ended = await target.outcome(body["operation_id"])
    need(ended.state is OperationState.FAILED and ended.failure, f"it {ended.state}")
    return f"failure {ended.failure.code if ended.failure else ''}"


@must("C-057", OPERATIONS, "A token is promised by a start and established by a completed turn.")
async def token(target: Target) -> str:
    await fresh(target)
    await target.started()
    promised = (await target.status()).token
    need(promised is not None, "no token after a start")
    need(promised is not None and not promised.established, "established before any turn")
    await target.turn_end(await target.prompted("say hello"))
    status = await target.status()
    need(status.token is not None and status.token.established, "not established by a turn")
    return "promised, then established"


@must("C-058", OPERATIONS, "The token's value is shown to scope control alone.")
async def token_value(target: Target) -> str:
    status = await target.opened()
    need(status.token is not None and status.token.value, "scope control does not see it")
    answer = await target.call("GET", paths.STATUS, scopes=(Scope.READ,))
    told = answer.fits(StatusReport).token
    need(told is not None and told.sha256, "scope read does not see its hash")
    value = status.token.value if status.token and status.token.value else ""
    need(value.encode() not in answer.body, "scope read sees the value")
    stream = await target.events()
    need(all(value not in event.model_dump_json() for event in stream), "an event has the value")
    return "value for control, hash for read"


@must("C-059", OPERATIONS, "A stop answers 202, ends the agent, and repeats its outcome.")
async def stop(target: Target) -> str:
    await target.opened()
    body = target.stop_body()
    answer = await target.call("POST", paths.STOP, body)
    need(answer.status == 202 and answer.fits(Operation).kind == "stop", f"got {answer}")
    ended = await target.outcome(body["operation_id"])
    need(ended.state is OperationState.SUCCEEDED, f"it {ended.state}")
    status = await target.status()
    need(status.agent.status is AgentStatus.NONE, f"the agent is {status.agent.status}")
    again = (await target.ask("POST", paths.STOP, body)).fits(Operation)
    need(again == ended, "another operation is answered")
    return "succeeded, agent none"


@must("C-060", OPERATIONS, "A resume brings the conversation back and shows none of it again.")
async def resume(target: Target) -> str:
    await fresh(target)
    await target.started()
    await target.turn_end(await target.prompted("say remember"))
    told = (await target.status()).token
    if told is None or told.value is None:
        raise NotApplicable("the token's value is not shown to these credentials")
    await target.stopped()
    mark = await target.mark()
    ended = await target.started(mode="resume", resume_token=told.value)
    need(not ended.token_replaced, "the token was replaced")
    await target.turn_end(await target.prompted("count"))
    said = await target.words(mark)
    need("replayed" not in said, "the replay is shown as if it were new")
    need("had 2 prompts" in said, f"the agent says {said[:100]!r}")
    return f"back by {ended.method}, no message twice"


@must("C-061", OPERATIONS, "A new start after a stop begins a conversation of its own.")
async def anew(target: Target) -> str:
    await fresh(target)
    await target.started()
    await target.turn_end(await target.prompted("say one"))
    await target.stopped()
    target.epoch += 1
    await target.started()
    mark = await target.mark()
    await target.turn_end(await target.prompted("count"))
    said = await target.words(mark)
    need("had 1 prompts" in said, f"the agent says {said[:100]!r}")
    return "an empty conversation"


@must(
    "C-062", OPERATIONS, "An agent that dies is told as exited, with how; its turn is interrupted."
)
async def exited(target: Target) -> str:
    await target.opened()
    prompt_id = await target.prompted("exit")
    status = await target.agent_is(AgentStatus.EXITED)
    told = status.agent.exit
    need(told is not None and told.code == 3, f"exit is {told}")
    last = status.last_turn
    need(last is not None and last.prompt_id == prompt_id, "its turn has no end")
    need(last is not None and last.outcome == "interrupted", f"the turn is {last}")
    need((await health_of(target)).status == "ok", "/health is not ok")
    return "exited with code 3, turn interrupted"
