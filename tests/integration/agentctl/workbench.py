"""A running agentctl seen from its files and git: calls with scope `files`, and real repositories.

No session is ever configured here: all of it works before, and without, any agent.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.agentctl.harness import Json, Refused, Sidecar
from kandev_operator.contract import paths

GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
    "LC_ALL": "C",
}


def git(folder: Path | bytes, *args: str | bytes, **more: Any) -> bytes:
    """Call git as a person does."""
    settings = ("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always")
    told = subprocess.run(
        ["git", *settings, *args], cwd=folder, env=GIT_ENV, capture_output=True, check=False, **more
    )
    assert told.returncode == 0, (args, told.stderr)
    return told.stdout


def repository(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    for name, text in ({"a.txt": "one\n"} if files is None else files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


class Bench:
    """Calls about files and git."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar

    @property
    def workspace(self) -> Path:
        return self.sidecar.workspace

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | None = None,
        claims: Json | None = None,
    ) -> httpx.Response:
        told: Json = {"scopes": ["files"], "term": None, "epoch": None} | (claims or {})
        token = self.sidecar.keys.token(**told)
        return self.sidecar.http.request(
            method,
            self.sidecar.run["url"] + path,
            params={k: _text(v) for k, v in (query or {}).items()},
            headers={"Authorization": f"Bearer {token}", **(headers or {})},
            json=json,
            content=data,
            timeout=60,
        )

    def ask(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, **more: Any
    ) -> Any:
        response = self.send(method, path, query, **more)
        if response.status_code >= 400:
            raise Refused(response)
        return response.json() if response.content else None

    # ---- files -------------------------------------------------------------------------

    def tree(self, path: str = "", **query: Any) -> Json:
        answer: Json = self.ask("GET", paths.FILES_TREE, {"path": path, **query})
        return answer

    def names(self, path: str = "", **query: Any) -> list[str]:
        return [entry["path"] for entry in self.tree(path, **query)["entries"]]

    def get(self, path: str, **headers: str) -> httpx.Response:
        response = self.send("GET", paths.FILES_CONTENT, {"path": path}, headers=headers)
        if response.status_code >= 400:
            raise Refused(response)
        return response

    def put(self, path: str, data: bytes, *, etag: str | None = None, **query: Any) -> Json:
        """Write; without an ETag, a new file."""
        headers = {"If-None-Match": "*"} if etag is None else {"If-Match": etag}
        answer: Json = self.ask(
            "PUT", paths.FILES_CONTENT, {"path": path, **query}, headers=headers, data=data
        )
        return answer

    def delete(self, path: str, **query: Any) -> None:
        self.ask("DELETE", paths.FILES_ENTRY, {"path": path, **query})

    def rename(self, source: str, target: str, **more: Any) -> Json:
        body = {"from_path": source, "to_path": target, **more}
        answer: Json = self.ask("POST", paths.FILES_RENAME, json=body)
        return answer

    def make_folder(self, path: str, **more: Any) -> Json:
        answer: Json = self.ask("POST", paths.FILES_FOLDERS, json={"path": path, **more})
        return answer

    # ---- git ---------------------------------------------------------------------------

    def status(self, **query: Any) -> Json:
        answer: Json = self.ask("GET", paths.GIT_STATUS, query)
        return answer

    def diff(self, **query: Any) -> Json:
        answer: Json = self.ask("GET", paths.GIT_DIFF, query)
        return answer

    def log(self, **query: Any) -> Json:
        answer: Json = self.ask("GET", paths.GIT_LOG, query)
        return answer

    def branches(self, **query: Any) -> dict[str, Json]:
        answer: Json = self.ask("GET", paths.GIT_BRANCHES, query)
        return {branch["name"]: branch for branch in answer["branches"]}

    def post(self, path: str, **body: Any) -> Json:
        answer: Json = self.ask("POST", path, json=body)
        return answer

    def commit(self, message: str = "a commit", **body: Any) -> Json:
        author = {"name": "Bo", "email": "bo@example.com"}
        return self.post(paths.GIT_COMMIT, message=message, **({"author": author} | body))

    def changes(self, **query: Any) -> dict[str, tuple[str | None, str | None]]:
        """Path to what happened in index and work tree."""
        entries = self.status(**query)["entries"]
        return {e["path"]: (e["index"], e["worktree"]) for e in entries}


def code_of(call: Callable[..., Any], *args: Any, **more: Any) -> str:
    """The code of the refusal that a call meets with."""
    with pytest.raises(Refused) as refused:
        call(*args, **more)
    return str(refused.value.code)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
