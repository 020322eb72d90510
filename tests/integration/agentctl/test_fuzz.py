"""Every route, fed with what its schema allows and with what it does not: no 500, no traceback.

Schemathesis makes calls out of the contract's OpenAPI document and compares each answer with it;
Hypothesis makes bodies, headers and tokens that fit nothing. The seeds are fixed, so a run of
today is a run of tomorrow.
"""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from integration.agentctl.harness import AUDIENCE, Keys, Sidecar, eventually
from kandev_operator.contract import openapi, paths, routes
from kandev_operator.contract.errors import STATUS_OF, Code, ErrorBody

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CALM = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
WHOLE = openapi.document()
SIMPLE = {
    path: {
        method: told
        for method, told in methods.items()
        if path not in (paths.EVENTS, paths.FILES_WATCH)  # endless: queries are tried below
    }
    for path, methods in WHOLE["paths"].items()
}
schema = schemathesis.openapi.from_dict({**WHOLE, "paths": {k: v for k, v in SIMPLE.items() if v}})


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """An agentctl that is only for this: its sessions are not worth anything."""
    folder = tmp_path_factory.mktemp("fuzzed")
    sidecar = Sidecar(folder, Keys(folder / "jwks.json"))
    sidecar.start("--initialize-seconds", "2")
    sidecar.put()
    sidecar.succeeded(sidecar.open())
    yield sidecar
    sidecar.close()
    assert "Traceback" not in sidecar.output()


def tidy(sidecar: Sidecar) -> None:
    assert sidecar.health()["status"] in ("ok", "degraded")


@schema.parametrize()
@CALM
def test_calls_as_the_document_has_them(case: Any, fuzzed: Sidecar) -> None:
    token = fuzzed.keys.token(scopes=["read", "prompt", "control", "files", "shell"])
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("session_id"), str) and len(str(body)) % 2:
        body["session_id"] = fuzzed.session  # half of them get past the first door
    answer = case.call(
        base_url=fuzzed.run["url"], headers={"Authorization": f"Bearer {token}"}, timeout=30
    )
    case.validate_response(answer, checks=CHECKS)
    assert "Traceback" not in answer.text


def refusal(answer: httpx.Response) -> None:
    """A client's mistake, told as such."""
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:300])
    if answer.content and answer.headers.get("content-type", "").startswith("application/json"):
        told = ErrorBody.model_validate_json(answer.content)
        assert STATUS_OF[Code(told.code)] == answer.status_code or answer.status_code in (404, 405)
    assert "Traceback" not in answer.text
    assert len(answer.content) < 64 * 1024


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.binary(max_size=300) | JSON.map(lambda v: json.dumps(v).encode())


def _asks_for_something(body: bytes) -> bool:
    """Where a body may be left out, none at all is a good one, and so is an object without ours."""
    try:
        told = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return True
    return not isinstance(told, dict) or told.get("prompt_id") is not None


POSTS = [(r.method.upper(), r.path, r.optional) for r in routes.ROUTES if r.body is not None]


@pytest.mark.parametrize(("method", "path", "optional"), POSTS)
def test_bodies_that_are_none(fuzzed: Sidecar, method: str, path: str, optional: bool) -> None:
    @CALM
    @given(body=BODIES.filter(_asks_for_something) if optional else BODIES)
    def run(body: bytes) -> None:
        headers = {"Authorization": f"Bearer {fuzzed.keys.token()}"}
        url = fuzzed.run["url"] + path.replace("{permission_id}", "p")
        refusal(fuzzed.http.request(method, url, content=body, headers=headers))

    run()
    tidy(fuzzed)


@CALM
@given(
    after=st.text(max_size=60) | st.from_regex(r"[a-z]{0,5}:-?[0-9]{1,40}", fullmatch=True),
    kinds=st.text(max_size=30),
)
def test_cursors_and_kinds_that_are_none(fuzzed: Sidecar, after: str, kinds: str) -> None:
    headers = {"Authorization": f"Bearer {fuzzed.keys.token()}"}
    url = fuzzed.run["url"] + paths.EVENTS
    query = {"after": after, "kinds": kinds}
    with fuzzed.http.stream("GET", url, params=query, headers=headers) as answer:
        if answer.status_code != 200:
            answer.read()
            refusal(answer)


FOLDERS = st.text(max_size=60) | st.sampled_from(
    [
        "",
        "a",
        "..",
        "../x",
        "a/..",
        "/",
        "link",
        "%",
        "%2",
        "%41",
        "%FF",
        "f",
        "a//b",
        ".git",
        "x" * 9000,
    ]
)
FLAGS = st.sampled_from(["", "true", "false", "1", "0", "TRUE"]) | st.text(max_size=20)


@CALM
@given(path=FOLDERS, ignored=FLAGS, more=st.dictionaries(st.text(max_size=9), st.text(max_size=9)))
def test_watches_of_what_is_no_folder(
    fuzzed: Sidecar, path: str, ignored: str, more: dict[str, str]
) -> None:
    """What is taken begins with `ready`; a place that is still taken is given back in a moment."""
    (fuzzed.workspace / "a").mkdir(exist_ok=True)
    (fuzzed.workspace / "f").touch()
    if not (fuzzed.workspace / "link").is_symlink():
        (fuzzed.workspace / "link").symlink_to("a")
    headers = {"Authorization": f"Bearer {fuzzed.keys.token(scopes=['files'])}"}
    url = fuzzed.run["url"] + paths.FILES_WATCH
    query = {**more, "path": path, "ignored": ignored}

    def asked() -> bool:
        with fuzzed.http.stream("GET", url, params=query, headers=headers) as answer:
            if answer.status_code == 200:
                assert next(answer.iter_lines()) == "event: ready"
                return True
            answer.read()
            if answer.status_code != STATUS_OF[Code.BUSY]:
                refusal(answer)
            return answer.status_code != STATUS_OF[Code.BUSY]

    eventually(asked, "an answer")
    if path in ("..", "../x", "a/..", "link", "f"):
        assert fuzzed.http.get(url, params=query, headers=headers).status_code >= 400


TOKENS = st.one_of(
    st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=200),
    st.binary(max_size=60).map(lambda b: b.hex()),
    st.tuples(*[st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)] * 3).map(".".join),
)


@CALM
@given(token=TOKENS, scheme=st.sampled_from(["Bearer ", "bearer ", "Basic ", "", "Bearer  "]))
def test_tokens_that_are_none(fuzzed: Sidecar, token: str, scheme: str) -> None:
    value = (scheme + token).strip().encode("latin-1")
    for name in ("Authorization", paths.TOKEN_HEADER):
        answer = fuzzed.http.get(fuzzed.run["url"] + paths.STATUS, headers=[(name.encode(), value)])
        refusal(answer)


CLAIMS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("iss", "aud", "iat", "exp", "scopes", "session", "term", "epoch"), JSON
    ),
)


@CALM
@given(claims=CLAIMS)
def test_claims_that_are_none_in_a_genuine_token(fuzzed: Sidecar, claims: dict[str, Any]) -> None:
    import jwt

    whole = {"iss": "kandev-operator", "aud": AUDIENCE, "iat": 0, "exp": 2**40, "scopes": ["read"]}
    key = fuzzed.keys.known["operator"]
    try:
        token = jwt.encode(whole | claims, key, algorithm="EdDSA", headers={"kid": "operator"})
    except (TypeError, ValueError):
        return  # the library itself does not sign such a thing
    headers = {"Authorization": f"Bearer {token}"}
    answer = fuzzed.http.get(fuzzed.run["url"] + paths.CAPABILITIES, headers=headers)
    if answer.status_code != 200:
        refusal(answer)
