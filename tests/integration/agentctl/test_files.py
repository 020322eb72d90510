"""Files of the workspace through a running agentctl: content, preconditions, names, folders."""

import os
import socket
import stat
import threading
from hashlib import sha256

import pytest

from integration.agentctl.harness import Refused
from integration.agentctl.workbench import Bench, code_of, git, repository
from kandev_operator.contract import paths
from kandev_operator.contract.files import MAX_FILE_BYTES, encode_path


def etag_of(data: bytes) -> str:
    return f'"sha256-{sha256(data).hexdigest()}"'


# ---- reading ---------------------------------------------------------------------------


def test_any_bytes_come_back_as_they_are_with_their_hash_and_mode(bench: Bench) -> None:
    data = bytes(range(256)) * 300
    (bench.workspace / "x.bin").write_bytes(data)
    (bench.workspace / "x.bin").chmod(0o750)
    answer = bench.get("x.bin")
    assert answer.content == data
    assert answer.headers["etag"] == etag_of(data)
    assert answer.headers["x-kandev-mode"] == "0750"
    assert answer.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("wanted", "first", "end"),
    [("bytes=0-3", 0, 4), ("bytes=5-", 5, 10), ("bytes=-2", 8, 10), ("bytes=8-99", 8, 10)],
)
def test_ranges(bench: Bench, wanted: str, first: int, end: int) -> None:
    (bench.workspace / "d").write_bytes(b"0123456789")
    answer = bench.get("d", Range=wanted)
    assert answer.status_code == 206
    assert answer.content == b"0123456789"[first:end]
    assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/10"
    assert answer.headers["etag"] == etag_of(b"0123456789")


def test_a_range_after_the_end_is_refused(bench: Bench) -> None:
    (bench.workspace / "d").write_bytes(b"0123456789")
    assert code_of(bench.get, "d", Range="bytes=10-") == "range_not_satisfiable"
    (bench.workspace / "empty").touch()
    assert bench.get("empty").content == b""
    assert code_of(bench.get, "empty", Range="bytes=0-") == "range_not_satisfiable"


def test_a_head_call_says_the_same_without_the_bytes(bench: Bench) -> None:
    (bench.workspace / "d").write_bytes(b"0123456789")
    answer = bench.send("HEAD", paths.FILES_CONTENT, {"path": "d"})
    assert answer.status_code == 200
    assert answer.headers["content-length"] == "10"
    assert answer.headers["etag"] == etag_of(b"0123456789")
    assert answer.content == b""


def test_a_large_file_is_read_in_ranges_only(bench: Bench) -> None:
    size = MAX_FILE_BYTES + 10
    with (bench.workspace / "large").open("wb") as file:
        file.truncate(size)
        file.seek(size - 3)
        file.write(b"end")
    assert code_of(bench.get, "large") == "too_large"
    answer = bench.get("large", Range="bytes=-3")
    assert answer.content == b"end"
    assert answer.headers["etag"].startswith("W/")


def test_what_is_not_a_regular_file_is_told_and_never_opened(bench: Bench) -> None:
    os.mkfifo(bench.workspace / "fifo")
    os.symlink("/dev/zero", bench.workspace / "dev")
    (bench.workspace / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.fspath(bench.workspace / "sock"))
        assert code_of(bench.get, "sock") == "not_a_file"
    assert code_of(bench.get, "fifo") == "not_a_file"
    assert code_of(bench.get, "dev") == "outside_workspace"
    assert code_of(bench.get, "folder") == "not_a_file"
    assert code_of(bench.put, "fifo", b"x", etag="*") == "not_a_file"
    kinds = {e["path"]: e["kind"] for e in bench.tree()["entries"]}
    assert kinds == {"dev": "symlink", "fifo": "other", "folder": "folder", "sock": "other"}


# ---- writing ---------------------------------------------------------------------------


def test_a_write_says_what_it_replaces(bench: Bench) -> None:
    response = bench.send("PUT", paths.FILES_CONTENT, {"path": "f"}, data=b"x")
    assert (response.status_code, response.json()["code"]) == (428, "precondition_required")
    assert not (bench.workspace / "f").exists()


def test_a_write_with_the_hash_that_was_read_wins_once(bench: Bench) -> None:
    first = bench.put("f", b"one")
    assert (first["created"], first["etag"]) == (True, etag_of(b"one"))
    second = bench.put("f", b"two", etag=first["etag"])
    assert (second["created"], second["etag"]) == (False, etag_of(b"two"))
    with pytest.raises(Refused) as refused:
        bench.put("f", b"three", etag=first["etag"])
    assert refused.value.code == "precondition_failed"
    assert refused.value.details == {"etag": etag_of(b"two")}
    assert (bench.workspace / "f").read_bytes() == b"two"


def test_a_new_file_does_not_replace_one(bench: Bench) -> None:
    bench.put("f", b"one")
    assert code_of(bench.put, "f", b"two") == "precondition_failed"
    assert code_of(bench.put, "g", b"two", etag="*") == "precondition_failed"
    assert bench.put("f", b"two", etag="*")["created"] is False


def test_a_write_keeps_the_mode_and_leaves_nothing_behind(bench: Bench) -> None:
    script = bench.workspace / "run.sh"
    script.write_bytes(b"old")
    script.chmod(0o751)
    bench.put("run.sh", b"new", etag=etag_of(b"old"))
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    bench.put("made.sh", b"new", mode="755")
    assert stat.S_IMODE((bench.workspace / "made.sh").stat().st_mode) == 0o755
    code_of(bench.put, "run.sh", b"x", etag=etag_of(b"old"))
    assert sorted(os.listdir(bench.workspace)) == ["made.sh", "run.sh"]


def test_a_reader_never_sees_half_a_write(bench: Bench) -> None:
    old, new = b"a" * 500_000, b"b" * 700_000
    bench.put("f", old)
    seen: set[bytes] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.add((bench.workspace / "f").read_bytes())

    reader = threading.Thread(target=watch)
    reader.start()
    for _ in range(10):
        bench.put("f", new, etag="*")
        bench.put("f", old, etag="*")
    over.set()
    reader.join()
    assert seen <= {old, new}


def test_of_many_writers_with_one_hash_one_wins(bench: Bench) -> None:
    bench.put("f", b"start")
    won: list[bytes] = []

    def write(text: bytes) -> None:
        response = bench.send(
            "PUT",
            paths.FILES_CONTENT,
            {"path": "f"},
            headers={"If-Match": etag_of(b"start")},
            data=text,
        )
        if response.status_code == 200:
            won.append(text)
        else:
            assert response.json()["code"] in ("precondition_failed", "busy")

    writers = [threading.Thread(target=write, args=(b"%d" % n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(won) == 1
    assert (bench.workspace / "f").read_bytes() == won[0]


def test_content_over_the_limit_is_refused(bench: Bench) -> None:
    assert code_of(bench.put, "f", b"x" * (MAX_FILE_BYTES + 1)) == "too_large"
    assert os.listdir(bench.workspace) == []


# ---- names and folders -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [b"a\nb", b"\xff\xfe", b"100%", b"%41", b" ", b"-rf", b"\xc3\xa9", b"a" * 255]
)
def test_odd_names_are_files_like_any_other(bench: Bench, name: bytes) -> None:
    wire = encode_path(name)
    bench.put(wire, b"x")
    assert os.listdir(os.fsencode(bench.workspace)) == [name]
    assert bench.names() == [wire]
    assert bench.get(wire).content == b"x"
    bench.rename(wire, "plain")
    bench.rename("plain", wire)
    bench.delete(wire)
    assert os.listdir(bench.workspace) == []


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "a//b", "a/", ".", "a/./b", "%2", "%zz", "%41", "%2f", "a\0b", "x" * 5000],
)
def test_what_is_not_a_path_is_refused(bench: Bench, path: str) -> None:
    assert code_of(bench.get, path) == "invalid_request"


def test_folders_are_made_renamed_and_deleted(bench: Bench) -> None:
    assert code_of(bench.make_folder, "a/b/c") == "file_not_found"
    assert bench.make_folder("a/b/c", parents=True)["kind"] == "folder"
    assert bench.make_folder("a/b/c", parents=True)["kind"] == "folder"
    assert code_of(bench.make_folder, "a") == "file_exists"
    bench.put("a/b/c/f", b"x")
    assert code_of(bench.make_folder, "a/b/c/f", parents=True) == "not_a_folder"
    assert code_of(bench.rename, "a/b", "a/b/c/d") == "invalid_request"
    assert bench.rename("a/b", "moved")["kind"] == "folder"
    assert code_of(bench.delete, "moved") == "folder_not_empty"
    bench.delete("moved", recursive=True)
    bench.delete("a")
    assert os.listdir(bench.workspace) == []


def test_a_rename_does_not_replace_unless_told(bench: Bench) -> None:
    bench.put("a", b"a")
    bench.put("b", b"b")
    assert code_of(bench.rename, "a", "b") == "file_exists"
    assert (bench.workspace / "b").read_bytes() == b"b"
    bench.rename("a", "b", overwrite=True)
    assert (bench.workspace / "b").read_bytes() == b"a"
    assert code_of(bench.rename, "a", "c") == "file_not_found"


def test_the_workspace_itself_stays(bench: Bench) -> None:
    bench.put("f", b"x")
    for call in (bench.delete, bench.make_folder):
        assert code_of(call, "") == "invalid_request"
    assert code_of(bench.rename, "", "x") == "invalid_request"
    assert code_of(bench.delete, "", recursive=True) == "invalid_request"
    assert bench.names() == ["f"]


# ---- the tree --------------------------------------------------------------------------


def test_a_tree_is_told_page_by_page(bench: Bench) -> None:
    for folder in ("b", "a", "c"):
        (bench.workspace / folder / "in").mkdir(parents=True)
        for number in range(7):
            (bench.workspace / folder / "in" / f"{number}").touch()
    whole = bench.names(depth=3)
    assert len(whole) == 27
    assert whole[:3] == ["a", "a/in", "a/in/0"]
    assert bench.names(depth=1) == ["a", "b", "c"]
    pages, after = [], None
    while True:
        page = bench.tree(depth=3, limit=4, **({"after": after} if after else {}))
        pages += [entry["path"] for entry in page["entries"]]
        after = page["next"]
        if after is None:
            break
        assert len(page["entries"]) == 4
    assert pages == whole


def test_a_page_goes_on_though_its_last_entry_is_gone(bench: Bench) -> None:
    for number in range(5):
        bench.put(f"{number}", b"")
    after = bench.tree(limit=2)["next"]
    assert after == "1"
    bench.delete("1")
    assert bench.names(after=after) == ["2", "3", "4"]


def test_what_git_ignores_is_left_out_unless_asked(bench: Bench) -> None:
    repository(
        bench.workspace,
        {".gitignore": "*.log\nbuild/\n!keep.log\n", "src/a.py": "", "src/.gitignore": "gen\n"},
    )
    for name in ("x.log", "keep.log", "build/out", "src/gen", "new.py"):
        path = bench.workspace / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    seen = [".gitignore", "keep.log", "new.py", "src", "src/.gitignore", "src/a.py"]
    assert bench.names(depth=3) == seen
    everything = {e["path"]: e["ignored"] for e in bench.tree(depth=2, ignored=True)["entries"]}
    assert everything["x.log"] is everything["build"] is everything[".git"] is True
    assert everything["src/gen"] is True
    assert everything["keep.log"] is everything["src/a.py"] is False


def test_what_is_tracked_is_shown_whatever_the_patterns_say(bench: Bench) -> None:
    files = {"x.log": "", "build/deep/keep": "", "wild[1]/f": "", "src/a.py": ""}
    repository(bench.workspace, files)
    bench.put(".gitignore", b"*.log\nbuild\nwild*\nmany-*\n")
    for name in ("y.log", "build/out", "build/deep/out", "build/other/out", "wild1/f", "wild[1]/g"):
        path = bench.workspace / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    shown = [".gitignore", "build", "build/deep", "build/deep/keep", "src", "src/a.py"]
    shown += ["wild[1]", "wild[1]/f", "x.log"]
    assert bench.names(depth=4) == shown
    everything = {e["path"]: e["ignored"] for e in bench.tree(depth=4, ignored=True)["entries"]}
    assert {path for path, ignored in everything.items() if ignored is False} == set(shown)
    # The index is asked anew when it is another one, and for any number of paths.
    git(bench.workspace, "rm", "-q", "--cached", "x.log")
    git(bench.workspace, "add", "-f", "y.log")
    for number in range(40):
        (bench.workspace / f"many-{number:02}").touch()
    git(bench.workspace, "add", "-f", "many-07")
    shown = [*shown[:3], *shown[3:4], "many-07", *shown[4:-1], "y.log"]
    assert bench.names(depth=4) == shown
    assert bench.names("wild[1]") == ["wild[1]/f"]


def test_without_a_repository_nothing_is_ignored(bench: Bench) -> None:
    bench.put(".gitignore", b"*\n")
    bench.put("x", b"")
    assert bench.names() == [".gitignore", "x"]
    assert {e["ignored"] for e in bench.tree(ignored=True)["entries"]} == {None}


# ---- who may ---------------------------------------------------------------------------


@pytest.mark.parametrize("scopes", [["read"], ["prompt", "shell"], []])
def test_another_scope_does_not_reach_files_or_git(bench: Bench, scopes: list[str]) -> None:
    for method, path in (
        ("GET", paths.FILES_TREE),
        ("PUT", paths.FILES_CONTENT),
        ("DELETE", paths.FILES_ENTRY),
        ("POST", paths.FILES_RENAME),
        ("GET", paths.GIT_STATUS),
    ):
        response = bench.send(method, path, claims={"scopes": scopes})
        assert (response.status_code, response.json()["code"]) == (403, "forbidden_scope")


def test_git_says_what_is_staged_changed_and_new(bench: Bench) -> None:
    repository(bench.workspace, {"a": "1\n", "b": "1\n", "c": "some lines\nto find\nagain\n"})
    (bench.workspace / "a").write_text("2\n")
    (bench.workspace / "n\new").write_text("x")
    git(bench.workspace, "mv", "c", "d")
    git(bench.workspace, "rm", "-q", "b")
    told = bench.status()
    assert (told["branch"], told["total"], told["truncated"]) == ("main", 4, None)
    assert told["counts"] == {"staged": 2, "unstaged": 1, "untracked": 1, "unmerged": 0}
    by_path = {e["path"]: (e["index"], e["worktree"], e["old_path"]) for e in told["entries"]}
    assert by_path == {
        "a": (None, "modified", None),
        "b": ("deleted", None, None),
        "d": ("renamed", None, "c"),
        "n\new": (None, "untracked", None),
    }
