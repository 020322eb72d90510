"""What really goes over the agent's stdio, line by line, against files that people can read.

A tap stands between agentctl and the scripted agent. Ids, paths and times are replaced by names;
what is left must be what the file says, in the same order. After a change that is meant:
KANDEV_WRITE_GOLDEN=1 writes the files anew, and the diff is the review.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.agentctl.harness import AGENT, Json, Sidecar, eventually

TAP = AGENT.with_name("wiretap.py")
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "acp"
STDIO_SERVER = {"name": "notes", "command": "/bin/notes", "args": [], "env": []}


class Tapped:
    """A conversation with the scripted agent, and everything that was said in it."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar
        self.notes = sidecar.folder / f"wire-{uuid.uuid4().hex[:8]}.jsonl"

    def put(self, *options: str) -> None:
        agent = [sys.executable, "-E", "-S", str(AGENT), *options]
        args = ["-E", "-S", str(TAP), str(self.notes), *agent]
        self.sidecar.put(command=sys.executable, args=args)

    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.notes.read_text().splitlines()]

    def plain(self) -> list[str]:
        """The lines, one way each, without what is different each time."""
        names: dict[str, str] = {}
        found = []
        for noted in joined(self.lines()):
            arrow = ">" if noted["from"] == "client" else "<"
            line = json.dumps(self.named(noted["line"], names), sort_keys=True, ensure_ascii=False)
            found.append(f"{arrow} {line}")
        return found

    def named(self, value: Any, names: dict[str, str]) -> Any:
        """Ids by the order of their first sight; the workspace by its name."""
        match value:
            case str():
                value = value.replace(str(self.sidecar.workspace), "/WORKSPACE")

                def name(found: re.Match[str]) -> str:
                    kind = found[1] or "session"
                    count = sum(n.startswith(kind) for n in names.values())
                    return names.setdefault(found[0], f"{kind}-{count + 1}")

                uid = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
                return re.sub(
                    rf"\b(?:{uid}|(call|request_permission|\w+)-[0-9a-f]{{8}})\b", name, value
                )
            case list():
                return [self.named(each, names) for each in value]
            case dict():
                return {k: self.named(v, names) for k, v in value.items() if k != "updatedAt"}
            case _:
                return value


def joined(lines: list[Json]) -> list[Json]:
    """Chunks of one message that follow each other, as one line: where they are cut is nobody's
    business."""
    found: list[Json] = []
    for noted in lines:
        words, before = chunk(noted), chunk(found[-1]) if found else None
        if words is not None and before is not None:
            before["text"] += words["text"]
        else:
            found.append(noted)
    return found


def chunk(noted: Json) -> Json | None:
    """The text block of a line that is a chunk of the agent's words."""
    update = (noted["line"].get("params") or {}).get("update") or {}
    if update.get("sessionUpdate") != "agent_message_chunk":
        return None
    content: Json = update["content"]
    return content


def a_turn_with_everything(tapped: Tapped) -> None:
    it = tapped.sidecar
    tapped.put("--takes=image", "--usage")
    it.succeeded(it.open(mcp_servers=[STDIO_SERVER]))
    content = [
        {"type": "text", "text": "think, plan: write notes.txt"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]
    body = {"session_id": it.session, "prompt_id": "p-all", "content": content}
    it.call("POST", "/api/v1/prompt", body)
    it.turn_end("p-all")
    it.stop()


def a_permission_and_a_cancel(tapped: Tapped) -> None:
    it = tapped.sidecar
    tapped.put("--tick", "600")
    it.succeeded(it.open())
    allowed = it.prompt("permission to write kept.txt")["prompt_id"]
    request = eventually(lambda: it.call("GET", "/api/v1/permissions"))[0]
    path = f"/api/v1/permissions/{request['permission_id']}"
    it.call("POST", path, {"option_id": "allow_once"})
    it.turn_end(allowed)
    cut = it.prompt("slow 1")["prompt_id"]
    it.becomes("running")
    it.call("POST", "/api/v1/cancel")
    it.turn_end(cut)
    it.stop()


def choices(tapped: Tapped) -> None:
    it = tapped.sidecar
    tapped.put("--modes", "--config", "--models")
    it.succeeded(it.open())
    for what, body in (
        ("mode", {"mode_id": "plan"}),
        ("config", {"config_id": "effort", "value": "high"}),
        ("config", {"config_id": "web", "value": True}),
        ("config", {"config_id": "session/set_model", "value": "large"}),
    ):
        whole = {"session_id": it.session, "operation_id": uuid.uuid4().hex, **body}
        it.outcome(it.call("POST", f"/api/v1/{what}", whole)["operation_id"])
    it.stop()


def files_and_a_terminal(tapped: Tapped) -> None:
    it = tapped.sidecar
    tapped.put()
    it.succeeded(it.open())
    for text in ("put: golden.txt", "read: golden.txt", "read: ../no", "terminal: echo hi; exit 2"):
        it.say(text)
    it.stop()


def a_way_back_by_load(tapped: Tapped) -> None:
    it = tapped.sidecar
    tapped.put("--no-resume")
    it.succeeded(it.open())
    it.say("one")
    it.stop()
    it.succeeded(it.resume())
    it.say("two")
    it.stop()


def a_way_back_that_is_gone(tapped: Tapped) -> None:
    it = tapped.sidecar
    tapped.put()
    it.succeeded(it.open())
    it.say("one")
    it.stop()
    tapped.put("--forget")
    it.failed(it.resume(), "session_not_found")
    it.becomes("none")


SCRIPTS: list[Callable[[Tapped], None]] = [
    a_turn_with_everything,
    a_permission_and_a_cancel,
    choices,
    files_and_a_terminal,
    a_way_back_by_load,
    a_way_back_that_is_gone,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_wire_is_as_written(script: Callable[[Tapped], None], sidecar: Sidecar) -> None:
    tapped = Tapped(sidecar)
    script(tapped)
    golden = GOLDEN / f"{script.__name__.replace('_', '-')}.txt"
    said = "\n".join(tapped.plain()) + "\n"
    if os.environ.get("KANDEV_WRITE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(said)
    assert said == golden.read_text()


def test_every_golden_file_has_a_script() -> None:
    written = {path.stem for path in GOLDEN.glob("*.txt")}
    assert written == {script.__name__.replace("_", "-") for script in SCRIPTS}
