"""Health, and who may call what: tokens that are none, too old, for another, or for less."""

import json
import re
import time
from typing import Final

from kandev_operator.conformance.musts import must, need
from kandev_operator.conformance.signing import LIFETIME
from kandev_operator.conformance.target import CONTROL, Answer, Target
from kandev_operator.contract import paths
from kandev_operator.contract.claims import LEEWAY_SECONDS, Scope
from kandev_operator.contract.errors import STATUS_OF, Code
from kandev_operator.contract.routes import ROUTES
from kandev_operator.contract.status import AgentStatus, Health
from kandev_operator.contract.version import is_compatible

HEALTH: Final = "health"
AUTH: Final = "authentication"
GUARDED: Final = tuple(
    (route.method.upper(), re.sub(r"{\w+}", "none", route.path), route.scope)
    for route in ROUTES
    if route.scope is not None
)
"""Every guarded call of the contract, and the scope that it needs."""


def refused(answer: Answer, *codes: Code) -> str:
    """The answer refuses with one of these codes, and with the status that belongs to it."""
    wanted = {(STATUS_OF[code], code.value) for code in codes}
    need((answer.status, answer.code()) in wanted, f"wanted {' or '.join(codes)}, got {answer}")
    return f"{answer.status} {answer.code()}"


async def health_of(target: Target) -> Health:
    answer = await target.send("GET", paths.HEALTH)
    need(answer.status == 200, f"/health answers {answer}")
    return answer.fits(Health)


@must("C-001", HEALTH, "/health answers 200 without a token, with the contract's body.")
async def health_is_open(target: Target) -> str:
    return f"status {(await health_of(target)).status}"


@must("C-002", HEALTH, "/health names a contract version whose major part is 1.")
async def version(target: Target) -> str:
    told = (await health_of(target)).contract_version
    need(is_compatible(told), f"contract_version is {told[:40]!r}")
    return f"version {told}"


@must("C-003", HEALTH, "/health and /status name the same instance and the same boot.")
async def one_identity(target: Target) -> str:
    told, status = await health_of(target), await target.status()
    need(told.instance_id and told.boot_id, "an id is empty")
    same = (told.instance_id, told.boot_id) == (status.instance_id, status.boot_id)
    need(same, "the ids differ")
    return "the same ids"


@must("C-004", HEALTH, "/health names the session served and the status of its agent.")
async def health_names(target: Target) -> str:
    await target.opened()
    told = await health_of(target)
    need(told.session_id == target.session, f"session_id is {told.session_id!r}")
    need(told.agent_status is AgentStatus.IDLE, f"agent_status is {told.agent_status}")
    return "our session, idle"


@must("C-010", AUTH, "A call without a token is refused with 401 unauthorized, on every path.")
async def no_token(target: Target) -> str:
    for method, path, _ in GUARDED:
        refused(await target.send(method, path), Code.UNAUTHORIZED)
    return f"{len(GUARDED)} paths refused"


@must("C-011", AUTH, "What is no token is refused with 401 unauthorized.")
async def nonsense(target: Target) -> str:
    for token in ("x", "a.b.c", "....", "e30.e30.e30", "a" * 5000):
        refused(await target.send("GET", paths.STATUS, token=token), Code.UNAUTHORIZED)
    basic = {"Authorization": "Basic dXNlcjpwYXNz"}
    return refused(await target.send("GET", paths.STATUS, headers=basic), Code.UNAUTHORIZED)


@must("C-012", AUTH, "A token that ended longer ago than the leeway is clock_skew, with seconds.")
async def expired(target: Target) -> str:
    over = int(time.time()) - LEEWAY_SECONDS - 600
    token = target.token(iat=over - LIFETIME, exp=over)
    answer = await target.send("GET", paths.STATUS, token=token)
    refused(answer, Code.CLOCK_SKEW)
    skew = answer.details().get("skew_seconds")
    need(isinstance(skew, int) and -1000 < skew < -LEEWAY_SECONDS, f"skew_seconds is {skew}")
    return f"skew_seconds {skew}"


@must("C-013", AUTH, "A token of the future beyond the leeway is clock_skew, with the seconds.")
async def of_the_future(target: Target) -> str:
    later = int(time.time()) + LEEWAY_SECONDS + 600
    token = target.token(iat=later, exp=later + LIFETIME)
    answer = await target.send("GET", paths.STATUS, token=token)
    refused(answer, Code.CLOCK_SKEW)
    skew = answer.details().get("skew_seconds")
    need(isinstance(skew, int) and LEEWAY_SECONDS < skew < 1000, f"skew_seconds is {skew}")
    return f"skew_seconds {skew}"


@must("C-014", AUTH, "A token whose time is off by less than the leeway is taken.")
async def within_leeway(target: Target) -> str:
    now = int(time.time())
    for iat, exp in ((now - 400, now - 100), (now + 100, now + 400)):
        token = target.token(iat=iat, exp=exp)
        answer = await target.send("GET", paths.CAPABILITIES, token=token)
        need(answer.status == 200, f"iat {iat - now:+} s, exp {exp - now:+} s: {answer}")
    return "100 s early and 100 s late are taken"


@must("C-015", AUTH, "A token for another audience is refused with 401 unauthorized.")
async def other_audience(target: Target) -> str:
    token = target.token(aud="somebody-else-entirely")
    return refused(await target.send("GET", paths.STATUS, token=token), Code.UNAUTHORIZED)


async def _forged(target: Target, how: str) -> str:
    token = target.credentials.forged(how)
    return refused(await target.send("GET", paths.STATUS, token=token), Code.UNAUTHORIZED)


@must("C-016", AUTH, "A token with algorithm none is refused with 401 unauthorized.")
async def algorithm_none(target: Target) -> str:
    return await _forged(target, "none")


@must("C-017", AUTH, "A token signed with another algorithm is refused with 401 unauthorized.")
async def other_algorithm(target: Target) -> str:
    return await _forged(target, "hs256")


@must("C-018", AUTH, "A token signed by another key under a known key id is refused with 401.")
async def unknown_key(target: Target) -> str:
    return await _forged(target, "unknown-key")


@must("C-019", AUTH, "A token whose claims were changed after signing is refused with 401.")
async def tampered(target: Target) -> str:
    return await _forged(target, "tampered")


@must("C-020", AUTH, "A token without the scope is refused with 403, details.needs names it.")
async def scopes(target: Target) -> str:
    await target.configured()
    for method, path, scope in GUARDED:
        others = [s for s in CONTROL if s is not scope]
        answer = await target.call(method, path, {} if method != "GET" else None, others)
        refused(answer, Code.FORBIDDEN_SCOPE)
        needs = answer.details().get("needs")
        need(needs == scope.value, f"{method} {path}: details.needs is {needs!r}")
    return f"{len(GUARDED)} paths name their scope"


@must("C-021", AUTH, "A call of scope control without a term or an epoch is refused with 400.")
async def control_is_fenced(target: Target) -> str:
    for token in (target.token(term=None), target.token(epoch=None)):
        content = json.dumps(target.spec()).encode()
        answer = await target.send("PUT", paths.AGENT, content=content, token=token)
        refused(answer, Code.INVALID_REQUEST)
    return "400 invalid_request for each"


@must("C-022", AUTH, "The token is also taken from X-Kandev-Token, whatever Authorization says.")
async def own_header(target: Target) -> str:
    headers = {paths.TOKEN_HEADER: target.token(), "Authorization": "Bearer of-somebody-else"}
    answer = await target.send("GET", paths.CAPABILITIES, headers=headers)
    need(answer.status == 200, f"got {answer}")
    return "200"


@must("C-023", AUTH, "A token bound to another session reads nothing of this one.")
async def bound_to_a_session(target: Target) -> str:
    await target.configured()
    read = (Scope.READ,)
    mine = await target.call("GET", paths.STATUS, scopes=read, session=target.session)
    need(mine.status == 200, f"its own session: {mine}")
    other = await target.call("GET", paths.STATUS, scopes=read, session="another-session")
    return refused(other, Code.SESSION_CONFLICT, Code.FORBIDDEN_SCOPE)
