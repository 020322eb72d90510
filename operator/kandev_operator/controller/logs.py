"""How the operator logs: to stderr, one line an event, and no secret in any of them.

Two formats: JSON objects for machines, lines for people. Both write what others said (an agent,
a kubelet, the API server) so that it cannot look like a line of ours. Both hide secrets as the
last thing before writing: the values that were registered, and what looks like a credential
whoever let it in. That is a second net; the first is that nobody logs one.

`EdgeLog` is for what is true for a while: it logs when that changes, not each time it is seen.
"""

import base64
import json
import logging
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

from kandev_operator.clients.errors import bounded

HIDDEN: Final = "[hidden]"

# Below so many characters a value is no secret worth the name, and hiding it would garble words.
_SHORTEST_SECRET: Final = 6
_MOST_SECRETS: Final = 4_096
_MOST_KEYS: Final = 20_000
_MOST_TOPICS: Final = 32
_LONGEST_TEXT: Final = 8_000

_CREDENTIAL: Final = re.compile(
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*"  # a JSON web token
    r"|(?<=Bearer )[^\s\"']{6,}|(?<=Basic )[A-Za-z0-9+/=]{6,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    re.DOTALL,
)
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# They tell every request or every event; two of them would tell headers and bodies too, so not
# even the level `debug` is passed on to them.
_NOISY: Final = ("aiohttp", "asyncio", "httpcore", "httpx", "kopf", "kubernetes", "urllib3")

_PLAIN_RECORD: Final = frozenset(
    vars(logging.makeLogRecord({})) | {"message": "", "asctime": "", "taskName": ""}
)


class Redactor:
    """Knows secrets, and takes them out of texts. Logs come from several threads."""

    def __init__(self, most: int = _MOST_SECRETS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._secrets: OrderedDict[str, None] = OrderedDict()
        self._longest_first: tuple[str, ...] = ()

    def register(self, secret: str) -> None:
        """Hide this value from now on. Of very many, the ones registered last are hidden."""
        if len(secret) < _SHORTEST_SECRET:
            return
        with self._lock:
            known = secret in self._secrets
            for form in _forms(secret):
                self._secrets[form] = None
                self._secrets.move_to_end(form)
            if known:
                return
            while len(self._secrets) > self._most:
                self._secrets.popitem(last=False)
            # A secret that is the beginning of another must not leave the other's rest behind.
            self._longest_first = tuple(sorted(self._secrets, key=len, reverse=True))

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._longest_first:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return _CREDENTIAL.sub(HIDDEN, text)


def _forms(secret: str) -> set[str]:
    """A value as it is, and as it looks inside a Secret, a repr and a JSON text."""
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return {secret, encoded, repr(secret)[1:-1], json.dumps(secret)[1:-1]}


class _Formatter(logging.Formatter):
    """What both formats share: the parts of a line, cleaned."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._clean = redactor.clean

    def _moment(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, tz=UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds") + "Z"

    def _message(self, record: logging.LogRecord) -> str:
        return bounded(self._clean(record.getMessage()), _LONGEST_TEXT)

    def _trace(self, record: logging.LogRecord) -> str:
        """The traceback, from the exception itself: a cached text was not cleaned by us."""
        parts = [self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return bounded(self._clean("\n".join(parts)), _LONGEST_TEXT)


class JsonFormatter(_Formatter):
    """One JSON object a line; fields given as `extra` stand beside the others."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        line: dict[str, object] = {
            "time": self._moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        for name, value in _extras(record).items():
            number = isinstance(value, int | float)
            line.setdefault(name, value if number else self._clean(str(value)))
        if trace := self._trace(record):
            line["exception"] = trace
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(_Formatter):
    """One line for people; a traceback follows it, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        message = _CONTROL.sub(lambda found: repr(found[0])[1:-1], self._message(record))
        name = record.name.removeprefix("kandev_operator.")
        line = f"{self._moment(record)} {record.levelname:<7} {name}: {message}"
        trace = "".join(f"\n    {each}" for each in self._trace(record).splitlines())
        return line + trace


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that a second `set_up` replaces the first's and nobody else's."""


def set_up(log_format: str, level: str, stream: TextIO | None = None) -> Redactor:
    """Have everything logged in this format from this level on. What it returns hides secrets."""
    redactor = Redactor()
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter((JsonFormatter if log_format == "json" else TextFormatter)(redactor))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    return redactor


class EdgeLog:
    """Logs a text for a key and topic only when it, or its level, is another than before.

    It keeps no texts, only what is needed to tell them apart, and no more keys than it is given
    room for: the one not heard of for the longest time is forgotten, and at worst told again.
    """

    def __init__(self, logger: logging.Logger | None = None, most_keys: int = _MOST_KEYS) -> None:
        self._logger = logger or logging.getLogger("kandev_operator")
        self._most_keys = most_keys
        self._last: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    def log(self, key: str, topic: str, level: int, text: str) -> bool:
        """Log it if it is news; tell whether it was."""
        topics = self._last.setdefault(key, OrderedDict())
        self._last.move_to_end(key)
        seen = hash((level, text))
        if topics.get(topic) == seen:
            return False
        topics[topic] = seen
        topics.move_to_end(topic)
        if len(topics) > _MOST_TOPICS:
            topics.popitem(last=False)
        if len(self._last) > self._most_keys:
            self._last.popitem(last=False)
        self._logger.log(level, "%s: %s", key, text, extra={"about": key, "topic": topic})
        return True

    def over(self, key: str, topic: str, level: int, text: str) -> bool:
        """Log that what was logged before has ended; nothing if nothing was."""
        topics = self._last.get(key)
        if topics is None or topics.pop(topic, None) is None:
            return False
        if not topics:
            del self._last[key]
        self._logger.log(level, "%s: %s", key, text, extra={"about": key, "topic": topic})
        return True

    def forget(self, key: str) -> None:
        """The object is gone."""
        self._last.pop(key, None)


def _extras(record: logging.LogRecord) -> Mapping[str, object]:
    """What the caller gave as `extra`; kopf's own notes to itself apart."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _PLAIN_RECORD and not name.startswith("k8s_")
    }
