"""Fetch, pull and push through agentctl, against a real Git server that wants a password."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.agentctl.gitserver import PASSWORD, USER, GitServer, serving
from integration.agentctl.harness import Json, Refused, eventually
from integration.agentctl.workbench import Bench, code_of, git, repository
from kandev_operator.contract import paths


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def origin(tmp_path: Path, server: GitServer, bench: Bench) -> Path:
    """A bare repository behind the server; the workspace is a clone of it."""
    source = repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), str(tmp_path / "o.git"))
    git(tmp_path / "o.git", "config", "http.receivepack", "true")
    bench.workspace.rmdir()
    git(tmp_path, "clone", "-q", str(tmp_path / "o.git"), str(bench.workspace))
    git(bench.workspace, "remote", "set-url", "origin", server.url("o.git"))
    return tmp_path / "o.git"


def known(server: GitServer, **changes: str) -> Json:
    return {"host": server.host, "username": USER, "password": PASSWORD} | changes


def commit_elsewhere(origin: Path, tmp_path: Path, subject: str) -> None:
    git(tmp_path, "clone", "-q", str(origin), str(tmp_path / subject))
    git(tmp_path / subject, "commit", "-q", "--allow-empty", "-m", subject)
    git(tmp_path / subject, "push", "-q", "origin", "HEAD:main")


def holds(folder: Path, secret: str) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
    ]


def test_fetch_pull_and_push_with_a_credential(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    commit_elsewhere(origin, tmp_path, "theirs")
    credential = known(server)
    told = bench.post(paths.GIT_FETCH, credential=credential)
    assert (told["ahead"], told["behind"]) == (0, 1)
    told = bench.post(paths.GIT_PULL, credential=credential)
    assert (told["ahead"], told["behind"]) == (0, 0)
    bench.put("mine", b"x")
    bench.post(paths.GIT_STAGE, all=True)
    bench.commit("mine")
    told = bench.post(paths.GIT_PUSH, credential=credential)
    assert (told["ahead"], told["behind"]) == (0, 0)
    assert git(origin, "log", "-1", "--format=%s", "main") == b"mine\n"


def test_a_credential_is_on_no_disk_no_command_line_and_in_no_answer(
    bench: Bench, server: GitServer, origin: Path
) -> None:
    """Looked for while git runs, in every process's arguments and environment, and afterwards."""
    found: list[str] = []
    over = threading.Event()

    def spy() -> None:
        while not over.is_set():
            for name in os.listdir("/proc"):
                if not name.isdigit() or int(name) == os.getpid():
                    continue
                for what in ("cmdline", "environ"):
                    try:
                        text = Path(f"/proc/{name}/{what}").read_bytes()
                    except OSError:
                        continue
                    if PASSWORD.encode() in text:
                        found.append(f"{name}/{what}")

    thread = threading.Thread(target=spy)
    thread.start()
    try:
        for _ in range(5):
            bench.post(paths.GIT_FETCH, credential=known(server))
        with pytest.raises(Refused) as refused:
            bench.post(paths.GIT_FETCH, credential=known(server, password=PASSWORD + "-wrong"))
    finally:
        over.set()
        thread.join()
    assert refused.value.code == "git_auth_failed"
    assert PASSWORD not in str(refused.value)
    assert found == []
    assert f"{USER}:{PASSWORD}" in server.seen
    assert holds(bench.sidecar.folder, PASSWORD) == []
    assert PASSWORD not in bench.sidecar.output()


def test_a_credential_goes_to_its_host_alone(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    with serving(tmp_path) as stranger:
        git(bench.workspace, "remote", "set-url", "origin", stranger.url("o.git"))
        answer = code_of(bench.post, paths.GIT_FETCH, credential=known(server))
        assert answer == "git_config_unsafe"
        assert stranger.seen == []
        git(bench.workspace, "remote", "set-url", "origin", server.url("o.git"))
        for key, value in (
            (f"url.{stranger.url('')}.insteadOf", server.url("")),
            ("http.proxy", stranger.url("")),
            (f"http.{server.url('')}.proxy", stranger.url("")),
            ("http.sslVerify", "false"),
        ):
            git(bench.workspace, "config", key, value)
            with pytest.raises(Refused) as refused:
                bench.post(paths.GIT_FETCH, credential=known(server))
            assert refused.value.code == "git_config_unsafe"
            git(bench.workspace, "config", "--unset", key)
        assert stranger.seen == []
    bench.post(paths.GIT_FETCH, credential=known(server))


def test_a_credential_is_not_sent_unencrypted_over_a_network(
    bench: Bench, server: GitServer, origin: Path
) -> None:
    git(bench.workspace, "remote", "set-url", "origin", "http://git.example.com/o.git")
    credential = known(server, host="git.example.com")
    assert code_of(bench.post, paths.GIT_FETCH, credential=credential) == "git_config_unsafe"


def test_no_helper_of_anybody_stores_a_credential(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    for key in ("credential.helper", f"credential.http://{server.host}.helper"):
        git(bench.workspace, "config", "--add", key, f"store --file={kept}")
    bench.post(paths.GIT_FETCH, credential=known(server))
    assert not kept.exists()


def test_without_a_credential_nobody_is_asked(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    git(bench.workspace, "config", "core.askPass", f"touch {ran}; echo")
    git(bench.workspace, "config", "credential.helper", f"!touch {ran}; true")
    assert code_of(bench.post, paths.GIT_FETCH) == "git_auth_failed"
    assert not ran.exists()


def test_a_pull_only_goes_forward(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    commit_elsewhere(origin, tmp_path, "theirs")
    bench.put("mine", b"x")
    bench.post(paths.GIT_STAGE, all=True)
    mine = bench.commit("mine")["head"]
    assert code_of(bench.post, paths.GIT_PULL, credential=known(server)) == "git_diverged"
    assert git(bench.workspace, "rev-parse", "HEAD").decode().strip() == mine
    assert bench.status()["in_progress"] is None


def test_a_pull_does_not_overwrite_what_is_not_committed(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(origin), str(tmp_path / "else"))
    (tmp_path / "else/a.txt").write_text("theirs\n")
    git(tmp_path / "else", "commit", "-qam", "theirs")
    git(tmp_path / "else", "push", "-q")
    (bench.workspace / "a.txt").write_text("not committed\n")
    assert code_of(bench.post, paths.GIT_PULL, credential=known(server)) == "git_would_lose"
    assert (bench.workspace / "a.txt").read_text() == "not committed\n"


def test_a_push_replaces_nothing_unless_it_names_what(
    bench: Bench, server: GitServer, origin: Path, tmp_path: Path
) -> None:
    commit_elsewhere(origin, tmp_path, "theirs")
    theirs = git(origin, "rev-parse", "main").decode().strip()
    bench.commit("mine", allow_empty=True)
    credential = known(server)
    assert code_of(bench.post, paths.GIT_PUSH, credential=credential) == "git_diverged"
    wrong = {"credential": credential, "replaces": "0" * 39 + "1"}
    assert code_of(bench.post, paths.GIT_PUSH, **wrong) == "git_diverged"
    assert git(origin, "rev-parse", "main").decode().strip() == theirs
    bench.post(paths.GIT_PUSH, credential=credential, replaces=theirs)
    assert git(origin, "log", "-1", "--format=%s", "main") == b"mine\n"


def test_a_new_branch_is_pushed_with_its_upstream(
    bench: Bench, server: GitServer, origin: Path
) -> None:
    bench.post(paths.GIT_BRANCHES, name="topic")
    bench.post(paths.GIT_SWITCH, branch="topic")
    credential = known(server)
    assert code_of(bench.post, paths.GIT_PULL, credential=credential) == "git_no_upstream"
    told = bench.post(paths.GIT_PUSH, credential=credential, set_upstream=True)
    assert told["upstream"] == "origin/topic"


def test_a_remote_is_one_that_is_configured(bench: Bench, server: GitServer, origin: Path) -> None:
    answer = code_of(bench.post, paths.GIT_FETCH, remote="elsewhere")
    assert answer == "git_ref_not_found"
    assert code_of(bench.post, paths.GIT_FETCH, remote="--upload-pack=x") == "invalid_request"
    git(bench.workspace, "remote", "set-url", "origin", "http://127.0.0.1:1/x.git")
    assert code_of(bench.post, paths.GIT_FETCH) == "git_unreachable"


def test_a_fetch_that_hangs_ends_with_its_caller(
    bench: Bench, server: GitServer, origin: Path
) -> None:
    """A server that takes the call and never answers; the caller goes away."""
    import socket

    def children() -> list[str]:
        assert bench.sidecar.process is not None
        out = subprocess.run(
            ["ps", "-eo", "ppid=,args="], capture_output=True, text=True, check=True
        ).stdout
        own = str(bench.sidecar.process.pid)
        return [line for line in out.splitlines() if line.split()[0] == own and "fetch" in line]

    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        git(bench.workspace, "remote", "set-url", "origin", f"http://{host}/o.git")
        token = bench.sidecar.keys.token(scopes=["files"], term=None, epoch=None)
        url = bench.sidecar.run["url"]
        at, _, port = url.removeprefix("http://").rpartition(":")
        with socket.create_connection((at, int(port))) as caller:
            body = b'{"repo": ""}'
            caller.sendall(
                f"POST {paths.GIT_FETCH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            eventually(children, "git fetches")
            assert bench.sidecar.health()["status"] == "ok"
        eventually(lambda: not children(), "git was ended")
    git(bench.workspace, "remote", "set-url", "origin", server.url("o.git"))
    bench.post(paths.GIT_FETCH, credential=known(server))
