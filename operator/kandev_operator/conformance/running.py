"""Runs the checks one by one against one target, and leaves it as it was found.

A check that raises `Broken`, gets no answer, or an answer that does not fit the contract, has
found a MUST that is not kept; whatever else is raised is a mistake of the suite's own.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import httpx
from pydantic import ValidationError

from kandev_operator.conformance import (
    checks_access,
    checks_agent,
    checks_errors,
    checks_events,
    checks_files,
    checks_permissions,
    checks_prompts,
    checks_rooms,
    checks_shell,
    checks_watch,
)
from kandev_operator.conformance.checks_rooms import require
from kandev_operator.conformance.musts import (
    REGISTRY,
    Broken,
    Finding,
    Must,
    NotApplicable,
    Result,
)
from kandev_operator.conformance.signing import CannotSign
from kandev_operator.conformance.target import ALIVE, Target, TooLate
from kandev_operator.contract import paths
from kandev_operator.contract.status import Health

ROOMS: Final = (
    checks_access,
    checks_errors,
    checks_agent,
    checks_prompts,
    checks_permissions,
    checks_events,
    checks_rooms,
    checks_files,
    checks_shell,
    checks_watch,
)
"""Where the checks are; importing them registers each."""
LONGEST: Final = 180.0


class Unfit(Exception):
    """The suite cannot run against this target; the text says why."""


def every() -> tuple[Must, ...]:
    """All MUSTs, by id."""
    return tuple(REGISTRY[key] for key in sorted(REGISTRY))


async def prepare(target: Target, *, even_if_serving: bool) -> None:
    """Look before anything is done; raises Unfit."""
    try:
        answer = await target.send("GET", paths.HEALTH)
        health = answer.fits(Health)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise Unfit(f"no answer from the target: {type(exc).__name__}") from None
    except ValidationError:
        raise Unfit(f"what answers is no agentctl: {answer}") from None
    if health.agent_status in ALIVE:
        raise Unfit(f"the target serves session {health.session_id}, whose agent lives")
    if health.session_id is not None and not even_if_serving:
        raise Unfit(
            f"the target serves session {health.session_id}; --even-if-serving has it serve the "
            "suite's own, and its caller must PUT its agent again afterwards"
        )
    try:
        status = await target.status(term=None, epoch=None)
    except (TooLate, ValidationError) as exc:
        raise Unfit(f"the credentials do not work: {exc}") from None
    except CannotSign:
        return
    target.term = max(1, status.term)


async def tidy(target: Target) -> None:
    """No agent of ours is left."""
    try:
        await target.call("POST", paths.STOP, target.stop_body(grace_seconds=2, drop_queue=True))
        await target.eventually(lambda: _gone(target), "the end of the suite's agent")
    except (httpx.HTTPError, TooLate, ValidationError, CannotSign):
        return  # each of which a finding has told already


async def _gone(target: Target) -> bool | None:
    answer = await target.send("GET", paths.HEALTH)
    return None if answer.fits(Health).agent_status in ALIVE else True


async def run(
    target: Target, musts: Iterable[Must], told: Callable[[Finding], None] = lambda _: None
) -> list[Finding]:
    """Try each; `told` hears of each finding as it comes."""
    findings = []
    for must in musts:
        began = time.monotonic()
        result, seen = await _try(target, must)
        finding = Finding(must, result, seen[:500], round(time.monotonic() - began, 3))
        findings.append(finding)
        told(finding)
    return findings


async def _try(target: Target, must: Must) -> tuple[Result, str]:
    try:
        async with asyncio.timeout(LONGEST):
            if must.room is not None:
                await require(target, must.room)
            return Result.PASS, await must.check(target)
    except (NotApplicable, CannotSign) as exc:
        return Result.NOT_APPLICABLE, str(exc)
    except (Broken, TooLate) as exc:
        return Result.FAIL, str(exc)
    except ValidationError as exc:
        where = ", ".join(".".join(map(str, e["loc"])) or "body" for e in exc.errors()[:3])
        return Result.FAIL, f"the answer does not fit the contract's {exc.title}: {where}"
    except httpx.HTTPError as exc:
        return Result.FAIL, f"no answer: {type(exc).__name__}"
    except TimeoutError:
        return Result.FAIL, f"not done within {LONGEST:g} s"
    except (ValueError, KeyError, TypeError, IndexError) as exc:
        # What a check reads out of an answer is the target's word.
        return Result.FAIL, f"the answer cannot be read: {type(exc).__name__}"
