"""Changing a repository through agentctl: nothing is lost, and nothing happens by itself."""

import threading

import httpx
import pytest

from integration.agentctl.workbench import Bench, code_of, git, repository
from kandev_operator.contract import paths


def head(bench: Bench) -> str:
    return git(bench.workspace, "rev-parse", "HEAD").decode().strip()


def test_stage_unstage_and_commit(bench: Bench) -> None:
    repository(bench.workspace, {"a": "1\n", "b": "1\n", "in/c": "1\n"})
    (bench.workspace / "a").write_text("2\n")
    (bench.workspace / "b").unlink()
    (bench.workspace / "in/new").write_text("x\n")
    bench.post(paths.GIT_STAGE, paths=["a", "b"])
    assert bench.changes() == {
        "a": ("modified", None),
        "b": ("deleted", None),
        "in/new": (None, "untracked"),
    }
    bench.post(paths.GIT_UNSTAGE, paths=["b"])
    assert bench.changes()["b"] == (None, "deleted")
    made = bench.commit("only a\n\n# not a comment")
    assert (made["head"], made["branch"]) == (head(bench), "main")
    assert git(bench.workspace, "show", "--name-only", "--format=%B%an <%ae>").decode() == (
        "only a\n\n# not a comment\nBo <bo@example.com>\n\na\n"
    )
    told = bench.post(paths.GIT_STAGE, all=True)
    assert told["counts"] == {"staged": 2, "unstaged": 0, "untracked": 0, "unmerged": 0}
    told = bench.post(paths.GIT_UNSTAGE, all=True)
    assert told["counts"]["staged"] == 0
    assert (bench.workspace / "in/new").read_text() == "x\n"


def test_the_first_commit_and_unstaging_before_it(bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    bench.put("a", b"1\n")
    bench.post(paths.GIT_STAGE, all=True)
    bench.post(paths.GIT_UNSTAGE, paths=["a"])
    assert bench.changes() == {"a": (None, "untracked")}
    bench.post(paths.GIT_STAGE, paths=["a"])
    made = bench.commit(expected_head="none")
    assert made["head"] == head(bench)
    assert code_of(bench.commit, expected_head="none") == "git_head_moved"


def test_a_commit_that_is_asked_for_twice_is_made_once(bench: Bench) -> None:
    repository(bench.workspace)
    before = head(bench)
    bench.put("new", b"x")
    bench.post(paths.GIT_STAGE, all=True)
    bench.commit(expected_head=before)
    bench.put("newer", b"x")
    bench.post(paths.GIT_STAGE, all=True)
    assert code_of(bench.commit, expected_head=before) == "git_head_moved"
    assert git(bench.workspace, "rev-list", "--count", "HEAD") == b"2\n"


def test_refusals_have_causes(bench: Bench) -> None:
    repository(bench.workspace)
    assert code_of(bench.commit) == "git_nothing_to_commit"
    bench.put("n", b"x")
    bench.post(paths.GIT_STAGE, all=True)
    assert code_of(bench.commit, author=None) == "git_identity_missing"
    assert code_of(bench.post, paths.GIT_STAGE, paths=["nothing"]) == "git_failed"
    assert code_of(bench.post, paths.GIT_STAGE) == "invalid_request"
    (bench.workspace / ".git/index.lock").touch()
    assert code_of(bench.post, paths.GIT_STAGE, all=True) == "git_locked"
    (bench.workspace / ".git/index.lock").unlink()
    assert bench.changes() == {"n": ("added", None)}


def test_a_conflict_is_neither_committed_nor_unstaged(bench: Bench) -> None:
    repository(bench.workspace, {"f": "base\n", "g": "g\n"})
    git(bench.workspace, "branch", "other")
    (bench.workspace / "f").write_text("ours\n")
    git(bench.workspace, "commit", "-qam", "ours")
    git(bench.workspace, "switch", "-q", "other")
    (bench.workspace / "f").write_text("theirs\n")
    git(bench.workspace, "commit", "-qam", "theirs")
    with pytest.raises(AssertionError):
        git(bench.workspace, "merge", "main")
    assert code_of(bench.commit) == "git_unresolved"
    assert code_of(bench.post, paths.GIT_UNSTAGE, all=True) == "git_unresolved"
    assert code_of(bench.post, paths.GIT_UNSTAGE, paths=["f"]) == "git_unresolved"
    assert code_of(bench.post, paths.GIT_SWITCH, branch="main") == "git_unresolved"
    (bench.workspace / "f").write_text("both\n")
    bench.post(paths.GIT_STAGE, paths=["f"])
    bench.commit("merged")
    assert len(bench.log()["commits"][0]["parents"]) == 2


def test_branches_are_made_and_switched_to(bench: Bench) -> None:
    repository(bench.workspace)
    made = bench.post(paths.GIT_BRANCHES, name="feature/x")
    assert (made["name"], made["current"]) == ("feature/x", False)
    assert code_of(bench.post, paths.GIT_BRANCHES, name="feature/x") == "git_ref_exists"
    for bad in ("-f", "a..b", "a b", "x.lock", "@{-1}", "HEAD~1"):
        assert code_of(bench.post, paths.GIT_BRANCHES, name=bad) == "invalid_request"
    told = bench.post(paths.GIT_SWITCH, branch="feature/x")
    assert told["branch"] == "feature/x"
    assert code_of(bench.post, paths.GIT_SWITCH, branch="nowhere") == "git_ref_not_found"


def test_a_switch_loses_nothing(bench: Bench) -> None:
    repository(bench.workspace, {"f": "one\n"})
    git(bench.workspace, "switch", "-q", "-c", "other")
    (bench.workspace / "f").write_text("two\n")
    (bench.workspace / "theirs").write_text("two\n")
    git(bench.workspace, "add", "-A")
    git(bench.workspace, "commit", "-qm", "two")
    git(bench.workspace, "switch", "-q", "main")
    (bench.workspace / "f").write_text("not committed\n")
    assert code_of(bench.post, paths.GIT_SWITCH, branch="other") == "git_would_lose"
    (bench.workspace / "f").write_text("one\n")
    (bench.workspace / "theirs").write_text("not tracked\n")
    assert code_of(bench.post, paths.GIT_SWITCH, branch="other") == "git_would_lose"
    assert (bench.workspace / "theirs").read_text() == "not tracked\n"
    (bench.workspace / "theirs").unlink()
    assert bench.post(paths.GIT_SWITCH, branch="other")["branch"] == "other"


def test_commits_on_no_branch_are_not_left_behind(bench: Bench) -> None:
    repository(bench.workspace)
    git(bench.workspace, "checkout", "-q", "--detach")
    git(bench.workspace, "commit", "-q", "--allow-empty", "-m", "on no branch")
    assert code_of(bench.post, paths.GIT_SWITCH, branch="main") == "git_would_lose"
    bench.post(paths.GIT_BRANCHES, name="kept")
    assert bench.post(paths.GIT_SWITCH, branch="main")["branch"] == "main"


def test_calls_that_change_wait_for_each_other(bench: Bench) -> None:
    repository(bench.workspace)
    for number in range(12):
        (bench.workspace / f"n{number}").touch()
    answers: list[httpx.Response] = []

    def stage(number: int) -> None:
        body = {"paths": [f"n{number}"]}
        answers.append(bench.send("POST", paths.GIT_STAGE, json=body))

    threads = [threading.Thread(target=stage, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {200}
    assert bench.status()["counts"]["staged"] == 12
