"""Git in the workspace through a running agentctl: what is told of real repositories."""

import os
import shutil
from pathlib import Path

import pytest

from integration.agentctl.harness import Sidecar
from integration.agentctl.workbench import Bench, code_of, git, repository
from kandev_operator.contract.files import encode_path
from kandev_operator.contract.git import MAX_DIFF_FILES

# ---- repositories of every kind --------------------------------------------------------


def test_no_commits_at_all(bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    bench.put("new", b"x")
    told = bench.status()
    assert (told["head"], told["branch"], told["total"]) == (None, "main", 1)
    assert bench.log()["commits"] == []
    assert bench.diff()["files"] == []
    assert bench.diff(staged=True)["files"] == []
    assert bench.branches() == {}
    assert code_of(bench.log, ref="nothing") == "git_ref_not_found"


def test_a_detached_head(bench: Bench) -> None:
    repository(bench.workspace)
    git(bench.workspace, "checkout", "-q", "--detach")
    told = bench.status()
    assert told["branch"] is None
    assert told["head"] == git(bench.workspace, "rev-parse", "HEAD").decode().strip()


def test_a_merge_conflict(bench: Bench) -> None:
    repository(bench.workspace, {"f": "base\n", "g": "base\n"})
    git(bench.workspace, "switch", "-q", "-c", "other")
    (bench.workspace / "f").write_text("theirs\n")
    git(bench.workspace, "commit", "-qam", "theirs")
    git(bench.workspace, "switch", "-q", "main")
    (bench.workspace / "f").write_text("ours\n")
    git(bench.workspace, "commit", "-qam", "ours")
    with pytest.raises(AssertionError):
        git(bench.workspace, "merge", "other")
    told = bench.status()
    assert told["in_progress"] == "merge"
    assert told["counts"]["unmerged"] == 1
    assert bench.changes() == {"f": ("unmerged", "unmerged")}
    files = bench.diff()["files"]
    assert {f["path"] for f in files} == {"f"}
    assert any("<<<<<<<" in (f["patch"] or "") for f in files)


@pytest.mark.parametrize(
    "name", [b"with\nnewline", b"\xff\xfe raw", b'tab\t"quote" \\', b"100% sure", b"-f"]
)
def test_odd_file_names(bench: Bench, name: bytes) -> None:
    folder = os.fsencode(bench.workspace)
    repository(bench.workspace)
    (Path(os.fsdecode(folder)) / os.fsdecode(name)).write_text("one\n")
    wire = encode_path(name)
    assert bench.changes() == {wire: (None, "untracked")}
    bench.post("/api/v1/git/stage", paths=[wire])
    assert bench.changes() == {wire: ("added", None)}
    [file] = bench.diff(staged=True)["files"]
    assert (file["path"], file["additions"], file["change"]) == (wire, 1, "added")
    assert "+one" in file["patch"]
    bench.commit()
    git(bench.workspace, "mv", "--", os.fsdecode(name), "plain")
    [entry] = bench.status()["entries"]
    assert (entry["path"], entry["old_path"], entry["index"]) == ("plain", wire, "renamed")
    [file] = bench.diff(staged=True)["files"]
    assert (file["path"], file["old_path"], file["change"]) == ("plain", wire, "renamed")
    assert [c["subject"] for c in bench.log(path=wire)["commits"]] == ["a commit"]


def test_a_linked_worktree(bench: Bench, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    bench.workspace.rmdir()
    git(main, "worktree", "add", "-q", "-b", "task", str(bench.workspace))
    (bench.workspace / "a.txt").write_text("two\n")
    told = bench.status()
    assert (told["branch"], told["total"]) == ("task", 1)
    bench.post("/api/v1/git/stage", all=True)
    bench.commit("in the worktree")
    assert git(main, "log", "-1", "--format=%s", "task") == b"in the worktree\n"
    assert bench.names() == ["a.txt"]
    git(main, "worktree", "remove", "--force", str(bench.workspace))
    bench.workspace.mkdir()


def test_a_shallow_clone(bench: Bench, tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    for number in range(3):
        git(origin, "commit", "-q", "--allow-empty", "-m", f"{number}")
    bench.workspace.rmdir()
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", str(bench.workspace))
    assert bench.status()["shallow"] is True
    assert [c["subject"] for c in bench.log()["commits"]] == ["2"]


def test_a_submodule_is_a_repository_of_its_own(bench: Bench, tmp_path: Path) -> None:
    library = repository(tmp_path / "library", {"lib": "1\n"})
    repository(bench.workspace)
    git(bench.workspace, "submodule", "--quiet", "add", str(library), "libs/one")
    git(bench.workspace, "commit", "-qm", "with a library")
    (bench.workspace / "libs/one/lib").write_text("2\n")
    assert bench.changes() == {}
    assert bench.changes(repo="libs/one") == {"lib": (None, "modified")}
    bench.post("/api/v1/git/stage", repo="libs/one", all=True)
    bench.commit(repo="libs/one")
    [entry] = bench.status()["entries"]
    assert (entry["path"], entry["worktree"], entry["submodule"]) == ("libs/one", "modified", True)
    [file] = bench.diff()["files"]
    assert file["submodule"] is True
    assert "Subproject commit" in file["patch"]


def test_a_repository_around_the_workspace_is_not_the_callers(bench: Bench) -> None:
    above = bench.workspace.parent
    repository(above, {"secret": "x\n"})
    try:
        assert code_of(bench.status) == "not_a_repository"
        repository(bench.workspace)
        (bench.workspace / "sub").mkdir()
        assert code_of(bench.status, repo="sub") == "not_a_repository"
        assert code_of(bench.status, repo="..") == "outside_workspace"
    finally:
        shutil.rmtree(above / ".git")
        (above / "secret").unlink()


# ---- status ----------------------------------------------------------------------------


def test_a_status_is_cut_at_the_limit_and_says_so(bench: Bench) -> None:
    repository(bench.workspace)
    for number in range(30):
        (bench.workspace / f"new-{number}").touch()
    told = bench.status(limit=10)
    assert len(told["entries"]) == 10
    assert (told["total"], told["truncated"]) == (30, "limit")
    assert told["counts"]["untracked"] == 30
    assert bench.status(untracked="no")["total"] == 0


# ---- diff ------------------------------------------------------------------------------


def test_a_diff_tells_text_binary_and_deletions(bench: Bench) -> None:
    repository(bench.workspace, {"t": "a\nb\nc\n", "gone": "x\n", "mode": "x\n"})
    (bench.workspace / "bin").write_bytes(bytes(range(256)))
    git(bench.workspace, "add", "-A")
    git(bench.workspace, "commit", "-qm", "more")
    (bench.workspace / "t").write_text("a\nB\nc\n")
    (bench.workspace / "bin").write_bytes(bytes(range(255, -1, -1)))
    (bench.workspace / "gone").unlink()
    (bench.workspace / "mode").chmod(0o755)
    told = bench.diff()
    files = {f["path"]: f for f in told["files"]}
    assert (told["total"], told["truncated"]) == (4, None)
    assert (files["t"]["additions"], files["t"]["deletions"]) == (1, 1)
    assert "-b\n+B\n" in files["t"]["patch"]
    assert (files["bin"]["binary"], files["bin"]["omitted"]) == (True, "binary")
    assert files["bin"]["patch"] is None
    assert files["gone"]["change"] == "deleted"
    assert "new mode 100755" in files["mode"]["patch"]
    assert [f["path"] for f in bench.diff(path="t")["files"]] == ["t"]
    assert [f["path"] for f in bench.diff(base="HEAD~1", path="bin")["files"]] == ["bin"]


def test_a_change_of_kind_is_one_file(bench: Bench) -> None:
    repository(bench.workspace, {"f": "text\n"})
    (bench.workspace / "f").unlink()
    (bench.workspace / "f").symlink_to("elsewhere")
    [file] = bench.diff()["files"]
    assert file["change"] == "type_changed"
    assert "-text" in file["patch"]
    assert "+elsewhere" in file["patch"]


def test_a_large_diff_is_cut_with_the_reason(bench: Bench) -> None:
    repository(bench.workspace, {"big": "", "more": "", "small": ""})
    (bench.workspace / "big").write_text("a line\n" * 60_000)
    (bench.workspace / "more").write_text("a line\n" * 10_000)
    (bench.workspace / "small").write_text("a line\n")
    told = bench.diff()
    files = {f["path"]: f for f in told["files"]}
    assert files["big"]["omitted"] == "file_limit"
    assert files["big"]["additions"] == 60_000
    assert files["more"]["omitted"] is files["small"]["omitted"] is None
    assert told["truncated"] == "limit"
    told = bench.diff(max_bytes=1000)
    assert {f["path"]: f["omitted"] for f in told["files"]}["small"] == "limit"
    assert sum(len(f["patch"] or "") for f in told["files"]) <= 1000


def test_a_diff_of_very_many_files_counts_them_all(bench: Bench) -> None:
    names = [f"f{number:04}" for number in range(MAX_DIFF_FILES + 5)]
    repository(bench.workspace, dict.fromkeys(names, "1\n"))
    for name in names:
        (bench.workspace / name).write_text("2\n")
    told = bench.diff()
    assert (len(told["files"]), told["total"]) == (MAX_DIFF_FILES, MAX_DIFF_FILES + 5)
    assert told["truncated"] == "files"


def test_a_diff_in_another_encoding_is_shown_and_marked(bench: Bench) -> None:
    repository(bench.workspace, {"latin": "x\n"})
    (bench.workspace / "latin").write_bytes(b"caf\xe9\n")
    [file] = bench.diff()["files"]
    assert "caf\ufffd" in file["patch"]
    assert file["lossy"] is True


# ---- log and branches ------------------------------------------------------------------


def test_the_log_is_told_page_by_page_from_one_commit_on(bench: Bench) -> None:
    repository(bench.workspace)
    for number in range(7):
        git(
            bench.workspace,
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            f"subject {number}\n\nbody\nof it",
        )
    first = bench.log(limit=3)
    assert [c["subject"] for c in first["commits"]] == ["subject 6", "subject 5", "subject 4"]
    assert first["commits"][0]["body"] == "body\nof it"
    assert first["commits"][0]["parents"] == [first["commits"][1]["id"]]
    git(bench.workspace, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    second = bench.log(limit=3, after=first["next"])
    assert [c["subject"] for c in second["commits"]] == ["subject 3", "subject 2", "subject 1"]
    third = bench.log(limit=3, after=second["next"])
    assert [c["subject"] for c in third["commits"]] == ["subject 0", "first"]
    assert third["next"] is None
    assert code_of(bench.log, after="HEAD:1") == "invalid_request"
    assert code_of(bench.log, ref="--all") == "invalid_request"


def test_branches_with_how_far_they_are(bench: Bench, tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    bench.workspace.rmdir()
    git(tmp_path, "clone", "-q", str(origin), str(bench.workspace))
    git(bench.workspace, "commit", "-q", "--allow-empty", "-m", "mine")
    for number in range(2):
        git(origin, "commit", "-q", "--allow-empty", "-m", f"theirs {number}")
    git(bench.workspace, "fetch", "-q")
    git(bench.workspace, "branch", "alone")
    told = bench.status()
    assert (told["upstream"], told["ahead"], told["behind"]) == ("origin/main", 1, 2)
    known = bench.branches()
    assert set(known) == {"main", "alone", "origin/main"}
    main = known["main"]
    assert (main["current"], main["ahead"], main["behind"]) == (True, 1, 2)
    assert (known["alone"]["upstream"], known["alone"]["ahead"]) == (None, None)
    assert known["origin/main"]["remote"] is True


# ---- without git -----------------------------------------------------------------------


def test_without_a_git_executable_the_rest_is_served(unstarted: Sidecar, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    bench = Bench(unstarted.start(env={"PATH": str(empty)}))
    bench.put("f", b"x")
    assert bench.names() == ["f"]
    assert code_of(bench.status) == "git_missing"
