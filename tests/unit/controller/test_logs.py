"""Lines in both formats, what never gets into one, and edges."""

import base64
import io
import json
import logging
from collections.abc import Iterator

import pytest

from kandev_operator.controller.logs import (
    HIDDEN,
    EdgeLog,
    JsonFormatter,
    Redactor,
    TextFormatter,
    set_up,
)

pytestmark = pytest.mark.unit

TOKEN = "sess-0123456789abcdef"
JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
NOISY = ("aiohttp", "asyncio", "httpcore", "httpx", "kopf", "kubernetes", "urllib3")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    levels = {name: logging.getLogger(name).level for name in NOISY}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def a_record(message: str, *args: object, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord(
        "kandev_operator.controller.lease", logging.WARNING, __file__, 1, message, args, None
    )
    record.created = 1_700_000_000.25
    record.__dict__.update(fields)
    return record


def test_a_line_for_machines() -> None:
    record = a_record("%s lost %d", "x", 3, about="Executor a/b", attempt=2, time=0, k8s_skip=1)
    assert json.loads(JsonFormatter(Redactor()).format(record)) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "kandev_operator.controller.lease",
        "message": "x lost 3",
        "about": "Executor a/b",
        "attempt": 2,
    }


def test_a_line_for_people() -> None:
    line = TextFormatter(Redactor()).format(a_record("%s lost", "x"))
    assert line == "2023-11-14T22:13:20.250Z WARNING controller.lease: x lost"


def test_what_others_said_cannot_look_like_a_line_of_ours() -> None:
    record = a_record("agent: %s", "hello\n2023-11-14 ERROR forged\x1b[31m\u2028")
    line = TextFormatter(Redactor()).format(record)
    assert "\n" not in line
    assert r"hello\n2023-11-14 ERROR forged\x1b[31m\u2028" in line
    assert "\n" not in JsonFormatter(Redactor()).format(record)


def test_a_traceback_is_kept_whole_and_apart() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        record = a_record("it failed")
        record.exc_info = (type(error), error, error.__traceback__)
    text = TextFormatter(Redactor()).format(record)
    head, *rest = text.splitlines()
    assert head.endswith("it failed")
    assert all(line.startswith("    ") for line in rest)
    assert "    second" in rest
    assert (
        "ValueError: first\nsecond"
        in json.loads(JsonFormatter(Redactor()).format(record))["exception"]
    )


@pytest.mark.parametrize("formatter", [JsonFormatter, TextFormatter])
@pytest.mark.parametrize(
    "secret", [TOKEN, 'with "quotes" and \\', "two\nlines", "übermäßig", "#+[weird](.*)"]
)
def test_a_registered_secret_comes_through_nowhere(
    formatter: type[JsonFormatter | TextFormatter], secret: str
) -> None:
    redactor = Redactor()
    redactor.register(secret)
    encoded = base64.b64encode(secret.encode()).decode()
    record = a_record(f"in the text {secret} and %s", [secret, {encoded: 1}], about=secret)
    try:
        raise ValueError(secret)
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    line = formatter(redactor).format(record)
    assert HIDDEN in line
    for form in (secret, encoded.rstrip("="), json.dumps(secret)[1:-1], repr(secret)[1:-1]):
        assert form not in line


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {JWT}",
        f"url?token={JWT}&x=1",
        "header Bearer abcdef0123456",
        "header Basic dXNlcjpwYXNz",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw cut",
    ],
)
def test_what_looks_like_a_credential_is_hidden_unasked(text: str) -> None:
    cleaned = Redactor().clean(text)
    assert HIDDEN in cleaned
    for part in ("eyJ", "abcdef0123456", "dXNlcjpwYXNz", "MC4CAQAw"):
        assert part not in cleaned


def test_a_number_can_be_a_secret_too() -> None:
    redactor = Redactor()
    redactor.register("1234567")
    assert "1234567" not in JsonFormatter(redactor).format(a_record("pin %d", 1_234_567))


def test_ordinary_words_stay() -> None:
    text = "Bearer of news: TaskSession team/a RUNNING, eyJ, 10.0.0.1:8080, Basic idea"
    assert Redactor().clean(text) == text


def test_a_secret_that_begins_like_another_leaves_no_rest() -> None:
    redactor = Redactor()
    redactor.register("abcdef")
    redactor.register("abcdef-and-more")
    assert redactor.clean("x abcdef-and-more y abcdef z") == f"x {HIDDEN} y {HIDDEN} z"


def test_too_short_is_no_secret() -> None:
    redactor = Redactor()
    redactor.register("")
    redactor.register("a")
    assert redactor.clean("a cat") == "a cat"


def test_of_very_many_secrets_the_last_are_known() -> None:
    redactor = Redactor(most=10)
    for number in range(100):
        redactor.register(f"secret-{number:03}")
        redactor.register("secret-again")
    assert redactor.clean("secret-000 secret-099 secret-again") == (f"secret-000 {HIDDEN} {HIDDEN}")


def test_set_up_writes_in_the_format_asked_for_and_only_once() -> None:
    stream = io.StringIO()
    set_up("text", "debug", io.StringIO())
    redactor = set_up("json", "info", stream)
    redactor.register(TOKEN)
    log = logging.getLogger("kandev_operator.test")
    log.debug("not this")
    log.info("but this, without %s", TOKEN)
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == [
        f"but this, without {HIDDEN}"
    ]


def test_noise_is_kept_out_whatever_the_level() -> None:
    stream = io.StringIO()
    set_up("text", "debug", stream)
    for name in NOISY:
        logging.getLogger(f"{name}.part").info("noise")
        logging.getLogger(f"{name}.part").warning("trouble")
    logging.getLogger("kandev_operator.test").debug("ours")
    assert "noise" not in stream.getvalue()
    assert stream.getvalue().count("trouble") == len(NOISY)
    assert "ours" in stream.getvalue()
    set_up("text", "error", stream)
    logging.getLogger("kopf").warning("less")
    assert "less" not in stream.getvalue()


@pytest.fixture
def edges(caplog: pytest.LogCaptureFixture) -> EdgeLog:
    caplog.set_level(logging.DEBUG)
    return EdgeLog(most_keys=3)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_edge_is_logged_once(edges: EdgeLog, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("down", "down", "up", "down", "down"):
        edges.log("a", "api", logging.WARNING, text)
    assert lines(caplog) == ["a: down", "a: up", "a: down"]


def test_another_level_is_an_edge_too(edges: EdgeLog, caplog: pytest.LogCaptureFixture) -> None:
    assert edges.log("a", "api", logging.INFO, "down")
    assert edges.log("a", "api", logging.ERROR, "down")
    assert not edges.log("a", "api", logging.ERROR, "down")
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR"]


def test_keys_and_topics_are_told_apart(edges: EdgeLog, caplog: pytest.LogCaptureFixture) -> None:
    for key, topic in (("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")):
        edges.log(key, topic, logging.INFO, "same")
    assert lines(caplog) == ["a: same", "a: same", "b: same"]
    assert vars(caplog.records[1])["about"] == "a"
    assert vars(caplog.records[1])["topic"] == "y"


def test_an_end_is_logged_if_there_was_a_beginning(
    edges: EdgeLog, caplog: pytest.LogCaptureFixture
) -> None:
    assert not edges.over("a", "api", logging.INFO, "back")
    edges.log("a", "api", logging.WARNING, "away")
    assert edges.over("a", "api", logging.INFO, "back")
    assert not edges.over("a", "api", logging.INFO, "back")
    assert lines(caplog) == ["a: away", "a: back"]
    assert not edges._last


def test_a_forgotten_object_starts_anew(edges: EdgeLog, caplog: pytest.LogCaptureFixture) -> None:
    edges.log("a", "x", logging.INFO, "same")
    edges.forget("a")
    edges.forget("never seen")
    edges.log("a", "x", logging.INFO, "same")
    assert lines(caplog) == ["a: same", "a: same"]


def test_memory_has_a_bound(edges: EdgeLog) -> None:
    for number in range(1_000):
        edges.log(f"key-{number}", "x", logging.DEBUG, "text")
        edges.log("kept", f"topic-{number}", logging.DEBUG, "text")
    assert len(edges._last) == 3
    assert "kept" in edges._last
    assert sum(map(len, edges._last.values())) < 40
