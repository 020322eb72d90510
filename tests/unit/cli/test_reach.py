"""The way to agentctl: who is bound, which token, and which right or path is missing."""

from typing import Any

import aiohttp
import pytest

from kandev_operator.cli.commands import Cancel, Permissions, Why
from kandev_operator.cli.faults import ExitCode, Passing, Refusal
from kandev_operator.cli.troubles import of_agentctl, of_cluster, of_key, of_object
from kandev_operator.clients import errors, resources
from kandev_operator.clients.tokens import SigningKey
from kandev_operator.contract.claims import Scope
from unit.cli.bodies import NAME, Json, an_executor, executor_body
from unit.cli.stage import Stage, signing_secret

ASK = Permissions(NAME)
REMOTE = {"runtime": "Remote", "remote": {"url": "https://build-7.example.com:8443"}}
POD = {"runtime": "Pod", "pod": {}}


@pytest.mark.parametrize("runtime", ["Remote", "LocalDocker"])
async def test_an_audience_of_its_own(stage: Stage, runtime: str) -> None:
    url = stage.api.objects["executors", "team-a", "place"]["status"]["agentctlURL"]
    far = {**REMOTE, "remote": {"url": url, "audience": "build-7"}}
    mine = {"runtime": "LocalDocker", "localDocker": {"containerId": "c", "audience": "build-7"}}
    stage.api.put("executors", executor_body(url, far if runtime == "Remote" else mine))
    stage.agentctl.audience = "build-7"
    assert await stage.play(ASK) == ExitCode.OK


async def test_nothing_that_starts_or_stops_an_agent_is_ever_signed(stage: Stage) -> None:
    line = await stage.desk.reach.line(NAME)
    with pytest.raises(ValueError, match="reading, prompting, shells and files only"):
        await line.client.status(with_token=True)
    mint: Any = line.client._mint
    for scope in set(Scope) - {Scope.READ, Scope.PROMPT, Scope.SHELL, Scope.FILES}:
        with pytest.raises(ValueError, match="only"):
            mint(scope)


UNBOUND: list[tuple[Json, str]] = [
    ({"sessionRef": None}, "it holds no session"),
    ({"sessionRef": {"name": "other", "uid": "x"}}, "it holds session other"),
    ({"agentctlURL": None}, "no agentctl runs"),
]


@pytest.mark.parametrize(("status", "words"), UNBOUND, ids=lambda value: str(value))
async def test_both_must_point_at_each_other(stage: Stage, status: Json, words: str) -> None:
    stage.api.objects["executors", "team-a", "place"]["status"] |= status
    fault = await stage.refused(ASK)
    assert isinstance(fault, Refusal)
    assert words in fault.message


async def test_another_executor_of_the_same_name(stage: Stage) -> None:
    stage.api.objects["executors", "team-a", "place"]["metadata"]["uid"] = "another"
    assert "another one than session demo chose" in (await stage.refused(ASK)).message


async def test_another_instance_than_was_pinned(stage: Stage) -> None:
    stage.agentctl.instance_id = "a stranger"
    assert "another agentctl answers" in (await stage.refused(Cancel(NAME))).message


async def test_no_right_to_the_key(stage: Stage) -> None:
    stage.api.forbidden.add("secrets")
    fault = await stage.refused(ASK)
    assert "you may not read Secret kandev-signing-key in namespace kandev-system" in fault.message
    assert any("auth can-i get secrets/kandev-signing-key" in hint for hint in fault.hints)


async def test_no_key_there(stage: Stage) -> None:
    del stage.api.objects["secrets", "kandev-system", "kandev-signing-key"]
    fault = await stage.refused(ASK)
    assert any("--operator-namespace" in hint for hint in fault.hints)


async def test_a_key_that_is_none(stage: Stage) -> None:
    secret = stage.api.objects["secrets", "kandev-system", "kandev-signing-key"]
    secret["data"] = {"signing-key.pem": "c2VjcmV0"}
    fault = await stage.refused(ASK)
    assert "holds no usable key" in fault.message
    assert "c2VjcmV0" not in repr(fault)


async def test_a_key_that_agentctl_does_not_know(stage: Stage) -> None:
    stage.api.put("secrets", signing_secret(SigningKey.generate()), "kandev-system")
    fault = await stage.refused(ASK)
    assert any("kubectl kandev jwks" in hint for hint in fault.hints)


async def test_a_pod_is_reached_through_the_api_server_where_its_address_is_none(
    stage: Stage,
) -> None:
    seen: list[tuple[str, str | None]] = []

    async def proxy(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        seen.append((request.path, request.headers.get("Authorization")))
        return await stage.agentctl.handle(request)

    stage.api.proxy = proxy
    pod = {"podRef": {"name": "p-1", "uid": "u"}}
    stage.api.put("executors", executor_body("http://127.0.0.1:1", POD, **pod))
    assert await stage.play(ASK) == ExitCode.OK
    root = "/api/v1/namespaces/team-a/pods/p-1:1/proxy"
    assert seen == [(f"{root}/api/v1/permissions", "Bearer an-administrators-token")]


async def test_no_right_to_the_pod_proxy(stage: Stage) -> None:
    pod = {"podRef": {"name": "p-1", "uid": "u"}}
    stage.api.put("executors", executor_body("http://127.0.0.1:1", POD, **pod))
    fault = await stage.refused(ASK)
    assert any("get and create on pods/proxy" in hint for hint in fault.hints)


async def test_a_pod_that_answers_is_asked_itself(stage: Stage) -> None:
    url = stage.api.objects["executors", "team-a", "place"]["status"]["agentctlURL"]
    pod = {"podRef": {"name": "p-1", "uid": "u"}}
    stage.api.put("executors", executor_body(url, POD, **pod))
    assert await stage.play(ASK) == ExitCode.OK


async def test_missing_objects_and_definitions(stage: Stage) -> None:
    stage.api.objects.clear()
    assert "there is no TaskSession demo" in (await stage.refused(Why(NAME))).message
    missing = errors.NotFound("get", "the server could not find the requested resource")
    fault = of_object(missing, "get", resources.TASK_SESSIONS, "team-a", "demo")
    assert any("crds/" in hint for hint in fault.hints)


async def test_no_right_to_the_session(stage: Stage) -> None:
    stage.api.forbidden.add("tasksessions")
    fault = await stage.refused(Why(NAME))
    assert any("can-i get tasksessions.kandev.dev/demo -n team-a" in hint for hint in fault.hints)


async def test_an_object_that_this_version_cannot_read(stage: Stage) -> None:
    stage.api.session["spec"] = {"taskRef": 7}
    assert "cannot read it" in (await stage.refused(Why(NAME))).message


PATHS = [
    ({"spec": POD}, "pods/proxy in namespace team-a"),
    ({"spec": REMOTE, "url": "https://build-7.example.com:8443"}, "a certificate that is trusted"),
    ({}, "on which the operator runs"),
]


@pytest.mark.parametrize(("place", "words"), PATHS, ids=lambda value: str(value)[:30])
def test_which_path_is_missing(place: Any, words: str) -> None:
    fault = of_agentctl(errors.Unreachable("GET /x", "no connection in time"), an_executor(**place))
    assert "no connection in time" in fault.message
    assert any(words in hint for hint in fault.hints)


def test_clocks_that_differ() -> None:
    skewed = errors.Unauthenticated(
        "GET /x", "off", status=401, code="clock_skew", details={"skew_seconds": -1200}
    )
    assert "differ by 20 minutes" in of_agentctl(skewed, an_executor()).message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.Malformed("GET /x", "not JSON"), "cannot be understood"),
        (errors.Refused("GET /x", "no room", status=507, code="journal_full"), "(journal_full)"),
    ],
)
def test_other_answers(error: errors.AgentctlError, words: str) -> None:
    assert words in of_agentctl(error, an_executor()).message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.Unavailable("get", "refused"), Passing),
        (errors.Throttled("get", "slowly"), Passing),
        (errors.Unauthorized("get", "who"), None),
        (errors.Invalid("get", "no such thing"), None),
    ],
)
def test_the_cluster(error: errors.KubeError, kind: type | None) -> None:
    assert isinstance(of_cluster(error), Passing) is (kind is Passing)
    assert error.message in of_key(error, "kandev-system").message
    assert of_object(error, "get", resources.TASKS, "a", "b").message
