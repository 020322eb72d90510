"""A repository that wants to run programs: git here runs none of them, and reads nothing outside.

Each trap is sprung by plain git first, so it is known to be one.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.agentctl.workbench import GIT_ENV, Bench, code_of, git, repository
from kandev_operator.contract import paths

Trap = Callable[[Path, str], None]


def script(path: Path, ran: Path) -> str:
    path.write_text(f'#!/bin/sh\necho "$0" >> "{ran}"\nexit 0\n')
    path.chmod(0o755)
    return str(path)


def every_call(bench: Bench) -> None:
    """All that can be asked of a repository here; refusals do not matter."""
    (bench.workspace / "a.txt").write_text(f"{os.urandom(4).hex()}\n")
    (bench.workspace / "new").write_text("x\n")
    for method, path, query in (
        ("GET", paths.GIT_STATUS, {}),
        ("GET", paths.GIT_DIFF, {}),
        ("GET", paths.GIT_DIFF, {"base": "HEAD"}),
        ("GET", paths.GIT_LOG, {"path": "a.txt"}),
        ("GET", paths.GIT_BRANCHES, {}),
        ("GET", paths.FILES_TREE, {"depth": 3}),
    ):
        assert bench.send(method, path, query).status_code == 200
    bench.post(paths.GIT_STAGE, all=True)
    bench.ask("GET", paths.GIT_DIFF, {"staged": True})
    bench.commit()
    bench.send("POST", paths.GIT_BRANCHES, json={"name": "b"})
    bench.send("POST", paths.GIT_SWITCH, json={"branch": "b"})
    bench.send("POST", paths.GIT_SWITCH, json={"branch": "main"})
    for path in (paths.GIT_FETCH, paths.GIT_PULL, paths.GIT_PUSH):
        bench.send("POST", path, json={})


def fsmonitor(folder: Path, program: str) -> None:
    git(folder, "config", "core.fsmonitor", program)


def hooks(folder: Path, program: str) -> None:
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "pre-push"):
        os.symlink(program, folder / ".git/hooks" / name)
    os.symlink(program, folder / ".git/hooks/post-index-change")


def hooks_path(folder: Path, program: str) -> None:
    (folder / "hooks").mkdir()
    os.symlink(program, folder / "hooks/pre-commit")
    git(folder, "config", "core.hooksPath", "hooks")


def filters(folder: Path, program: str) -> None:
    for what in ("clean", "smudge"):
        git(folder, "config", f"filter.evil.{what}", program)
    git(folder, "config", "filter.evil.required", "true")
    (folder / ".gitattributes").write_text("*.txt filter=evil\n")


def included_filters(folder: Path, program: str) -> None:
    (folder / "more.conf").write_text(f'[filter "evil"]\n\tclean = "{program}"\n')
    git(folder, "config", "include.path", "../more.conf")
    (folder / ".gitattributes").write_text("*.txt filter=evil\n")


def external_diff(folder: Path, program: str) -> None:
    git(folder, "config", "diff.external", program)
    git(folder, "config", "diff.evil.command", program)
    git(folder, "config", "diff.evil.textconv", program)
    (folder / ".gitattributes").write_text("*.txt diff=evil\n")


def signing(folder: Path, program: str) -> None:
    git(folder, "config", "commit.gpgSign", "true")
    git(folder, "config", "gpg.program", program)


def editors_and_pagers(folder: Path, program: str) -> None:
    for key in ("core.editor", "core.pager", "pager.log", "sequence.editor"):
        git(folder, "config", key, program)


def ext_remote(folder: Path, program: str) -> None:
    git(folder, "config", "protocol.ext.allow", "always")
    git(folder, "remote", "add", "origin", f"ext::{program}")


def ssh_remote(folder: Path, program: str) -> None:
    git(folder, "config", "core.sshCommand", program)
    git(folder, "remote", "add", "origin", "ssh://127.0.0.1:1/x")


def remote_programs(folder: Path, program: str) -> None:
    repository(folder.parent / "near")
    git(folder, "remote", "add", "origin", str(folder.parent / "near"))
    git(folder, "config", "remote.origin.uploadpack", program)
    git(folder, "config", "remote.origin.receivepack", program)


def remote_helper(folder: Path, program: str) -> None:
    git(folder, "remote", "add", "origin", "x")
    git(folder, "config", "remote.origin.vcs", "evil")


PLAIN: dict[Trap, tuple[str, ...]] = {
    fsmonitor: ("status",),
    hooks: ("commit", "-q", "--allow-empty", "-m", "x"),
    hooks_path: ("commit", "-q", "--allow-empty", "-m", "x"),
    filters: ("add", "a.txt"),
    included_filters: ("add", "a.txt"),
    external_diff: ("diff",),
    signing: ("commit", "-q", "--allow-empty", "-m", "x"),
    editors_and_pagers: ("commit", "--allow-empty"),
    ext_remote: ("fetch",),
    ssh_remote: ("fetch",),
    remote_programs: ("fetch",),
    remote_helper: ("fetch",),
}


@pytest.mark.parametrize("trap", PLAIN, ids=lambda trap: trap.__name__)
def test_no_program_of_the_repository_runs(bench: Bench, tmp_path: Path, trap: Trap) -> None:
    ran = tmp_path / "ran"
    program = script(tmp_path / "git-remote-evil", ran)
    repository(bench.workspace, {"a.txt": "one\n"})
    trap(bench.workspace, program)
    (bench.workspace / "a.txt").write_text("changed\n")
    subprocess.run(
        ["git", *PLAIN[trap]],
        cwd=bench.workspace,
        env={**GIT_ENV, "PATH": f"{tmp_path}:{GIT_ENV['PATH']}"},
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )
    assert ran.exists(), "plain git does not step into this trap either"
    ran.unlink()
    every_call(bench)
    assert not ran.exists(), ran.read_text()


def test_no_program_of_a_submodule_runs(bench: Bench, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = script(tmp_path / "evil", ran)
    library = repository(tmp_path / "library")
    repository(bench.workspace, {"a.txt": "one\n"})
    git(bench.workspace, "submodule", "--quiet", "add", str(library), "lib")
    git(bench.workspace, "commit", "-qm", "lib")
    fsmonitor(bench.workspace / "lib", program)
    git(bench.workspace, "status")
    assert ran.exists()
    ran.unlink()
    every_call(bench)
    assert not ran.exists()


def test_hooks_run_where_the_caller_wants_them(bench: Bench, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    repository(bench.workspace)
    os.symlink(script(tmp_path / "hook", ran), bench.workspace / ".git/hooks/pre-commit")
    bench.commit(allow_empty=True)
    assert not ran.exists()
    bench.commit(allow_empty=True, run_hooks=True)
    assert ran.exists()


def test_a_push_into_a_folder_runs_its_hooks_only_where_the_caller_wants_them(
    bench: Bench, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    source = repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), str(tmp_path / "near.git"))
    os.symlink(script(tmp_path / "hook", ran), tmp_path / "near.git/hooks/post-receive")
    bench.workspace.rmdir()
    git(tmp_path, "clone", "-q", str(tmp_path / "near.git"), str(bench.workspace))
    bench.commit(allow_empty=True)
    assert code_of(bench.post, paths.GIT_PUSH) == "git_failed"
    assert not ran.exists()
    bench.post(paths.GIT_FETCH)
    bench.post(paths.GIT_PUSH, run_hooks=True)
    assert ran.exists()


def test_a_work_tree_elsewhere_is_not_read(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x\n")
    repository(bench.workspace)
    git(bench.workspace, "config", "core.worktree", str(tmp_path))
    assert bench.changes() == {}
    bench.post(paths.GIT_STAGE, all=True)
    assert bench.changes() == {}


def test_paths_are_names_and_no_patterns(bench: Bench) -> None:
    repository(bench.workspace, {"a": "1\n", "b": "1\n"})
    (bench.workspace / "a").write_text("2\n")
    (bench.workspace / "b").write_text("2\n")
    for pattern in ("*", ":(glob)**", ":(top)a", ":!a"):
        assert code_of(bench.post, paths.GIT_STAGE, paths=[pattern]) == "git_failed"
        assert bench.diff(path=pattern)["files"] == []
    assert code_of(bench.post, paths.GIT_STAGE, paths=["../x"]) == "git_failed"
    assert bench.status()["counts"]["staged"] == 0


def test_git_gets_nothing_of_agentctls_environment(bench: Bench, tmp_path: Path) -> None:
    """A hook that the caller wants tells its environment."""
    kept = tmp_path / "env"
    repository(bench.workspace)
    hook = bench.workspace / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\nenv > {kept}\nls /proc/self/fd > {kept}.fds\n")
    hook.chmod(0o755)
    bench.commit(allow_empty=True, run_hooks=True)
    names = {line.partition("=")[0] for line in kept.read_text().splitlines()}
    assert not {name for name in names if name.startswith("KANDEV") or "PYTEST" in name}
    assert "GIT_TERMINAL_PROMPT" in names
    fds = {int(fd) for fd in (tmp_path / "env.fds").read_text().split()}
    assert max(fds) < 10, "descriptors of agentctl are inherited"
