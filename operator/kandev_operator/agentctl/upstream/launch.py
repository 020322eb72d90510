"""From nothing, or from whatever is there already, to one process of the agent on the upstream.

The instance is made if it is missing. A process that runs in it is attached to when it is the one
that we started with this very configuration and saw initialized; another one is ended first, or,
in an instance that we were told to take over, adopted. An agent that somebody else runs on the
same files is a rival: then nothing is started. What became of it is a value or `NotLaunched`.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kandev_operator.agentctl.upstream.client import (
    Client,
    Instance,
    Process,
    Refused,
    Trouble,
)
from kandev_operator.agentctl.upstream.record import Record, Records
from kandev_operator.contract.agent import AgentSpec
from kandev_operator.contract.status import Capabilities, Failure, FailureCode

log = logging.getLogger("kandev.agentctl.upstream")

OWN: Final = "kandev-operator-"
"""How the names of instances begin that we made."""
UNKNOWN_PID: Final = 0
"""A process that was being started: whichever runs in the instance then."""


class NotLaunched(Exception):
    """No process was made; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run."""

    execution_id: str
    instance_id: str
    session_id: str
    workspace: str
    spec: AgentSpec
    may_adopt: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A process on the upstream."""

    pid: int
    capabilities: Capabilities | None = None
    """Known where it was initialized before."""
    adopted: bool = False
    """Somebody else started it; whether it is initialized is not known."""


async def begin(client: Client, records: Records, order: Order) -> Started:
    """Find, attach, adopt or start; raises NotLaunched."""
    try:
        return await _begin(client, records, order)
    except Trouble as trouble:
        failure = Failure(code=FailureCode.UPSTREAM_UNAVAILABLE, message=str(trouble))
        raise NotLaunched(failure) from None


async def _begin(client: Client, records: Records, order: Order) -> Started:
    instances = await client.instances()
    own = order.instance_id.rpartition("~")[0]
    await _no_rivals(client, instances, order, own)
    found = [i for i in instances if i.instance_id == order.instance_id]
    if found:
        instance = found[0]
    else:
        instance = await client.create(order.instance_id, order.workspace, order.session_id)
    await _in_its_folder(client, instance, order)
    process = await client.process(instance)
    if process.running and process.pid is not None:
        if started := await _of_before(process, records, order):
            return started
        log.warning("ending a process of an earlier execution on the upstream")
        await client.stop(instance)
    await asyncio.to_thread(records.forget)
    if found and not order.may_adopt:
        # An instance keeps the variables of every earlier configuration: a new one has none.
        await client.delete(order.instance_id)
        instance = await client.create(order.instance_id, order.workspace, order.session_id)
    return await _start(client, instance, records, order)


async def _in_its_folder(client: Client, instance: Instance, order: Order) -> None:
    """Where a folder is missing, they work in the nearest parent that exists: `/` at worst."""
    if instance.workspace.rstrip("/") != order.workspace.rstrip("/"):
        message = f"the instance works in {instance.workspace}, not in {order.workspace}"
        raise NotLaunched(Failure(code=FailureCode.CWD_MISSING, message=message[:500]))
    folder = (await client.folder(instance)).rstrip("/")
    if order.workspace.rstrip("/").startswith(folder + "/"):
        await client.delete(instance.instance_id)  # it would never see the folder come
        message = f"the folder {order.workspace[:300]} does not exist on the upstream's machine"
        raise NotLaunched(Failure(code=FailureCode.CWD_MISSING, message=message))


async def _no_rivals(client: Client, instances: Iterable[Instance], order: Order, own: str) -> None:
    """One writer: end what is ours of another session, refuse beside somebody else's."""
    for other in instances:
        if other.instance_id == order.instance_id:
            continue
        if own.startswith(OWN) and other.instance_id.startswith(own + "~"):
            await client.delete(other.instance_id)
        elif _same_folder(other, order) and (await client.process(other)).running:
            message = (
                f"the upstream's instance {other.instance_id[:100]} runs an agent in "
                f"{order.workspace[:200]}; stop it, or take it over with --upstream-instance"
            )
            raise NotLaunched(Failure(code=FailureCode.WORKSPACE_IN_USE, message=message))


def _same_folder(other: Instance, order: Order) -> bool:
    return other.workspace.rstrip("/") == order.workspace.rstrip("/")


async def _of_before(process: Process, records: Records, order: Order) -> Started | None:
    """The process that runs already, where it may serve this execution."""
    assert process.pid is not None
    record = records.now
    ours = record is not None and (record.instance_id, record.pid) == (
        order.instance_id,
        process.pid,
    )
    if ours and record is not None and record.capabilities is not None:
        if record.profile_hash != order.spec.profile_hash:
            return None
        kept = replace(
            _record(order, process.pid),
            capabilities=record.capabilities,
            conversation=record.conversation,
            offers=record.offers,
        )
        await asyncio.to_thread(records.keep, kept)
        return Started(process.pid, record.capabilities)
    if ours or not order.may_adopt:
        return None
    log.warning("taking over the process %d that somebody else started", process.pid)
    await asyncio.to_thread(records.keep, _record(order, process.pid))
    return Started(process.pid, adopted=True)


async def _start(client: Client, instance: Instance, records: Records, order: Order) -> Started:
    spec = order.spec
    await asyncio.to_thread(records.keep, _record(order, UNKNOWN_PID))
    try:
        await client.configure(instance, (spec.command, *spec.args), spec.env)
        await client.start(instance)
    except Refused as no:
        raise NotLaunched(_start_failure(str(no), spec.command)) from None
    process = await client.process(instance)
    if process.pid is None:
        message = f"{spec.command[:200]}: the upstream started no process"
        raise NotLaunched(Failure(code=FailureCode.COMMAND_NOT_FOUND, message=message))
    await asyncio.to_thread(records.keep, _record(order, process.pid))
    return Started(process.pid)


def _start_failure(words: str, command: str) -> Failure:
    """Why their start failed. Its words may hold arguments, so they are only looked at."""
    if "chdir" in words:
        message = "the working directory does not exist on the upstream's machine"
        return Failure(code=FailureCode.CWD_MISSING, message=message)
    if "no such file" in words or "not found" in words or "permission denied" in words:
        message = f"{command[:200]}: not launchable on the upstream's machine"
        return Failure(code=FailureCode.COMMAND_NOT_FOUND, message=message)
    message = f"the upstream could not start {command[:200]}"
    return Failure(code=FailureCode.UPSTREAM_UNAVAILABLE, message=message)


def _record(order: Order, pid: int) -> Record:
    return Record(
        execution_id=order.execution_id,
        instance_id=order.instance_id,
        pid=pid,
        profile_hash=order.spec.profile_hash,
        policy=order.spec.permission_policy,
        permission_timeout=order.spec.permission_timeout_seconds,
    )
