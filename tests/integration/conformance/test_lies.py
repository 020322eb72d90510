"""Each check can fail: a lie in front of a real agentctl breaks its MUST, and it says so."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.agentctl.harness import AUDIENCE, Sidecar
from integration.conformance.lies import (
    Lie,
    Line,
    Lying,
    all_powerful,
    answers,
    asks,
    calls_it,
    details,
    forgets,
    frames,
    late,
    leaves_out,
    overheard,
    rejects,
    says,
    takes,
    without,
    words,
)
from kandev_operator.conformance.musts import REGISTRY, Finding, Result
from kandev_operator.conformance.running import prepare, run, tidy
from kandev_operator.conformance.signing import KeyCredentials
from kandev_operator.conformance.target import Target
from kandev_operator.contract import paths

LIARS_PATIENCE = 8.0
"""What a liar keeps back never comes."""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def fails_outright() -> Lie:
    return rejects(lambda asked: asked.path == paths.HEALTH, "internal", 503)


def plain_words() -> Lie:
    def tell(_: Any, told: Any) -> None:
        if told.status >= 400:
            told.body, told.headers = b"no", {"content-type": "text/plain"}

    return Lie(tell=tell)


def operations_succeed(body: Any) -> None:
    for operation in body["operations"]:
        operation |= {"state": "succeeded", "failure": None}


def once_less() -> Lie:
    """One reader of many misses a frame."""
    numbers = itertools.count()

    def change(frame: bytes) -> bytes | None:
        return None if b"turn_started" in frame and next(numbers) == 3 else frame

    return frames(change)


def anybody_raises() -> Lie:
    """The highest term that was ever seen counts, whoever carried it."""
    seen = [0]

    def ask(asked: Any) -> None:
        seen.append(asked.claims().get("term", 0))

    def tell(asked: Any, told: Any) -> None:
        if asked.path == paths.STATUS and told.status == 200:
            told.body = json.dumps({**told.json(), "term": max(seen)}).encode()

    return Lie(ask=ask, tell=tell)


def without_zeros(asked: Any) -> None:
    if asked.method == "PUT" and asked.body:
        asked.body = asked.body.replace(b"\x00", b"")


def recursively(asked: Any) -> None:
    if asked.method == "DELETE":
        asked.query += "&recursive=true"


def asks_nothing(method: str, path: str) -> Lie:
    """The call is answered and does nothing."""

    def ask(asked: Any) -> None:
        if asked.method == method and asked.path.startswith(path):
            asked.method = "GET"

    return Lie(ask=ask)


def swapped(asked: Any) -> None:
    other = {"allow_once": "reject_once", "reject_once": "allow_once"}
    asked.edit(option_id=other.get(asked.json().get("option_id")))


def anew(asked: Any) -> None:
    asked.edit(mode="new", resume_token=None)


def no_cursor(asked: Any) -> None:
    asked.query = ""
    asked.headers.pop("last-event-id", None)


def token_established(body: Any) -> None:
    if body["token"]:
        body["token"]["established"] = True


def code_0(body: Any) -> None:
    if body["agent"]["exit"]:
        body["agent"]["exit"]["code"] = 0


def last_turn_failed(body: Any) -> None:
    if body["last_turn"]:
        body["last_turn"]["outcome"] = "failed"


def started(changes: str) -> Lie:
    """A start is answered in another manner."""

    def tell(asked: Any, told: Any) -> None:
        if asked.path.endswith(changes) and told.status == 202:
            told.status = 200

    return Lie(tell=tell)


def another_protocol_fits(body: Any) -> None:
    if body["failure"]:
        body |= {"failure": None, "protocol_version": 1}


def told_paths(frame: bytes) -> list[str]:
    head, _, data = frame.partition(b"\ndata: ")
    return list(json.loads(data)["paths"]) if head == b"event: changed" else []


def one_by_one(frame: bytes) -> bytes:
    each = [
        b"event: changed\ndata: " + json.dumps({"paths": [p]}).encode() for p in told_paths(frame)
    ]
    return b"\n\n".join(each) or frame


def twice(frame: bytes) -> bytes:
    paths = told_paths(frame)
    return b"event: changed\ndata: " + json.dumps({"paths": paths * 2}).encode() if paths else frame


def silent_after_overflow() -> Callable[[bytes], bytes | None]:
    lost: list[bytes] = []

    def change(frame: bytes) -> bytes | None:
        if lost:
            return None
        lost.extend([frame] if b"event: overflow" in frame else [])
        return frame

    return change


def on(path: str) -> Callable[[Any], bool]:
    return lambda asked: bool(asked.path == path)


ALL_ROOMS = {"files": True, "git": True, "shell": True}
NO_ROOMS = {**dict.fromkeys(ALL_ROOMS, False), "reason": "a lie"}
STRANGE = "/api/v1/git/no-such-thing/of-a-room"
TAKES_ANYBODY = {f"C-{n:03}": takes("unauthorized") for n in (10, 11, 15, 16, 17, 18, 19)}
TYPED: list[bytes] = []
"""What was typed into any shell."""
SWALLOWED = {"C-172": lambda frame: frame.replace(b"abc", b"ab")}
"""Bytes of a shell that are shown otherwise."""
LIES: dict[str, Lie] = {
    **TAKES_ANYBODY,
    "C-001": fails_outright(),
    "C-002": says(paths.HEALTH, contract_version="2.0"),
    "C-003": says(paths.HEALTH, boot_id="another"),
    "C-004": says(paths.HEALTH, session_id=None),
    "C-012": calls_it("clock_skew", "unauthorized", 401),
    "C-013": details("clock_skew", skew_seconds=0),
    "C-014": rejects(late),
    "C-020": details("forbidden_scope", needs="read"),
    "C-021": takes("invalid_request"),
    "C-022": rejects(lambda asked: "x-kandev-token" in asked.headers),
    "C-023": takes("session_conflict"),
    "C-030": calls_it("not_found", "internal", 500),
    "C-031": calls_it("invalid_request", "internal", 500),
    "C-032": details("invalid_request", errors=[]),
    "C-033": rejects(lambda asked: b"of_a_later" in (asked.body or b""), "invalid_request", 400),
    "C-034": plain_words(),
    "C-040": says(paths.AGENT, changed=False),
    "C-041": says(paths.AGENT, changed=True),
    "C-042": says(paths.CAPABILITIES, agent=None),
    "C-047": answers(paths.CAPABILITIES, another_protocol_fits),
    "C-043": says(paths.CAPABILITIES, supports_workspace_only=None),
    "C-044": says(paths.HEALTH, status="degraded"),
    "C-045": takes("session_conflict"),
    "C-046": takes("invalid_request"),
    "C-050": started(paths.START),
    "C-051": forgets("operation_id"),
    "C-052": takes("id_reused"),
    "C-053": takes("operation_conflict"),
    "C-054": answers(paths.STATUS, operations_succeed),
    "C-055": takes("invalid_request"),
    "C-056": answers(paths.STATUS, operations_succeed),
    "C-057": answers(paths.STATUS, token_established),
    "C-058": all_powerful(),
    "C-059": forgets("operation_id"),
    "C-060": asks(paths.START, anew),
    "C-061": words("had 1 prompts", "had 2 prompts"),
    "C-062": answers(paths.STATUS, code_0),
    "C-070": words("hello", "hell"),
    "C-071": forgets("prompt_id"),
    "C-072": takes("id_reused"),
    "C-073": says(paths.PROMPT, position=0),
    "C-074": takes("agent_not_running"),
    "C-075": takes("session_conflict"),
    "C-076": words("still here", "still here still here"),
    "C-077": asks(paths.STOP, lambda asked: asked.edit(drop_queue=None)),
    "C-078": asks(paths.STOP, lambda asked: asked.edit(drop_queue=True)),
    "C-079": words('"author":"user"', '"author":"agent"'),
    "C-080": words('"kind":"thought"', '"kind":"text"'),
    "C-090": says(paths.CANCEL, turn_id=None),
    "C-091": says(paths.CANCEL, turn_id="one"),
    "C-092": answers(paths.STATUS, last_turn_failed),
    "C-093": takes("agent_not_running"),
    "C-094": forgets("prompt_id"),
    "C-100": says(paths.STATUS, permissions=0),
    "C-101": Lie(ask=swapped),
    "C-102": Lie(
        ask=lambda a: a.edit(option_id="allow_once") if "/permissions/" in a.path else None
    ),
    "C-103": takes("unknown_permission"),
    "C-104": takes("invalid_request"),
    "C-105": takes("unknown_permission"),
    "C-106": without("event: permission_resolved"),
    "C-107": words("selected allow_once", "selected reject_once"),
    "C-110": words("id: ", "id: 1"),
    "C-111": without(":3\nevent"),
    "C-112": asks(paths.EVENTS, no_cursor),
    "C-113": without("event: message"),
    "C-114": without("event: gap"),
    "C-115": takes("invalid_request"),
    "C-116": asks(paths.EVENTS, no_cursor),
    "C-117": frames(lambda frame: None if frame.startswith(b":") else frame),
    "C-118": once_less(),
    "C-119": answers(paths.STATUS, lambda body: body["session"].update(marker_verified=False)),
    "C-120": takes("stale_epoch"),
    "C-121": takes("stale_epoch"),
    "C-122": anybody_raises(),
    "C-123": frames(lambda f: f.replace(b"event: live", b"id: j:1\nevent: live")),
    "C-130": takes("too_large"),
    "C-140": rejects(lambda a: a.path == paths.FILES_TREE, "agent_not_running", 409),
    "C-141": takes("precondition_required"),
    "C-142": asks(paths.FILES_CONTENT, without_zeros),
    "C-143": takes("precondition_failed"),
    "C-144": takes("outside_workspace"),
    "C-145": asks(paths.FILES_ENTRY, recursively),
    "C-146": asks(paths.FILES_RENAME, lambda asked: asked.edit(overwrite=True)),
    "C-147": asks(paths.FILES_CONTENT, lambda asked: asked.headers.pop("range", None)),
    "C-148": says(paths.FILES_SEARCH, matches=[]),
    "C-149": words('"boot_id":"', '"boot_id":"another-'),
    "C-150": words("/gone", "/old"),
    "C-151": frames(one_by_one),
    "C-152": takes("outside_workspace"),
    "C-153": without("event: overflow"),
    "C-160": takes("not_a_repository"),
    "C-161": asks(paths.GIT_COMMIT, lambda asked: asked.edit(expected_head=None)),
    "C-170": says(paths.SHELL, shells=[]),
    "C-171": forgets("name"),
    "C-172": Lie(),
    "C-173": takes("unknown_shell"),
    "C-174": asks_nothing("DELETE", paths.SHELL),
    "C-175": overheard(TYPED),
    "C-135": says(paths.CAPABILITIES, rooms=None),
    "C-136": leaves_out("files", but=paths.FILES_WATCH),
    "C-131": takes("too_large"),
    "C-132": fails_outright(),
}
MORE: list[tuple[str, str, Lie]] = [
    (
        "C-042",
        "an absent version without a reason",
        says(paths.CAPABILITIES, protocol_version=None),
    ),
    ("C-042", "a version made up", says(paths.CAPABILITIES, protocol_version=2)),
    (
        "C-042",
        "a version that is known and is not",
        says(paths.CAPABILITIES, unknown={"protocol_version": "not told"}),
    ),
    ("C-135", "no reason", says(paths.CAPABILITIES, rooms={**ALL_ROOMS, "git": False})),
    ("C-136", "served and said not to be", says(paths.CAPABILITIES, rooms=NO_ROOMS)),
    ("C-136", "one path of a served room", rejects(on(paths.GIT_PUSH), "not_served", 501)),
    ("C-136", "a path that the contract does not have", leaves_out("git", but=STRANGE)),
    ("C-149", "a cursor", words("event: ready", "id: j:1\nevent: ready")),
    ("C-151", "a path twice", frames(twice)),
    ("C-152", "the whole workspace", asks(paths.FILES_WATCH, no_cursor)),
    ("C-153", "silence after an overflow", frames(silent_after_overflow())),
    ("C-140", "said to be served, and is not", rejects(on(paths.FILES_TREE), "not_served", 501)),
]
"""Other ways to break a MUST."""


def test_there_is_a_lie_for_every_must() -> None:
    assert set(LIES) == set(REGISTRY)


async def tried(
    id: str, lie: Lie, agentctl: Sidecar, key: Path, swallow: Callable[[bytes], bytes] = bytes
) -> Finding:
    """One MUST, asked of a real agentctl behind a lie."""
    credentials = KeyCredentials(key, AUDIENCE, "operator")
    url = agentctl.run["url"]
    async with Target(url, credentials, session="conformance-lies") as honest:
        await prepare(honest, even_if_serving=True)
        honest.epoch = max(1, agentctl.status(term=None, epoch=None)["epoch"])
        await honest.configured()
        transport = Lying(lie)
        async with Target(
            url,
            credentials,
            transport=transport,
            session=honest.session,
            epoch=honest.epoch,
            patience=LIARS_PATIENCE,
        ) as target:
            target.wrap = lambda line: Line(line, swallow, TYPED)  # type: ignore[assignment]
            finding = (await run(target, [REGISTRY[id]]))[0]
        honest.epoch = max(honest.epoch, target.epoch)
        await tidy(honest)
    print(id, finding.seen)
    return finding


@pytest.mark.parametrize("id", sorted(LIES))
async def test_a_lie_is_found_out(
    id: str, agentctl: Sidecar, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if id == "C-117":
        monkeypatch.setattr(paths, "HEARTBEAT_SECONDS", 0.5)  # what is waited for never comes
    finding = await tried(id, LIES[id], agentctl, key, SWALLOWED.get(id, bytes))
    assert finding.result is Result.FAIL, finding.seen


@pytest.mark.parametrize(
    ("id", "lie"), [pytest.param(id, lie, id=f"{id} {words}") for id, words, lie in MORE]
)
async def test_another_lie_is_found_out(id: str, lie: Lie, agentctl: Sidecar, key: Path) -> None:
    finding = await tried(id, lie, agentctl, key)
    assert finding.result is Result.FAIL, finding.seen


async def test_what_is_said_to_be_unknown_or_left_out_is_no_pass(
    agentctl: Sidecar, key: Path
) -> None:
    """So our own run, which takes nothing but a pass, cannot have a null or a room left out."""
    unknown = {"protocol_version": "somebody hides it"}
    hides = says(paths.CAPABILITIES, protocol_version=None, unknown=unknown)
    for id, lie in (
        ("C-047", hides),
        ("C-140", leaves_out("files")),
        ("C-170", leaves_out("shell")),
    ):
        finding = await tried(id, lie, agentctl, key)
        assert finding.result is Result.NOT_APPLICABLE, finding.seen
