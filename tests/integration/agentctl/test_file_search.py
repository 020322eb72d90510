"""Search by name and by content, through a running agentctl."""

import os
from pathlib import Path

import pytest

from integration.agentctl.harness import Json
from integration.agentctl.workbench import Bench, code_of, git, repository
from kandev_operator.contract import paths
from kandev_operator.contract.files import encode_path


def search(bench: Bench, query: str, **more: object) -> Json:
    answer: Json = bench.ask("GET", paths.FILES_SEARCH, {"query": query, **more})
    return answer


def found(bench: Bench, query: str, **more: object) -> list[str]:
    return sorted(match["path"] for match in search(bench, query, **more)["matches"])


def grep(bench: Bench, query: str, **more: object) -> list[tuple[str, int, int, str]]:
    matches = search(bench, query, **{"in": "content", **more})["matches"]
    return [(m["path"], m["line"], m["column"], m["text"]) for m in matches]


@pytest.fixture
def project(bench: Bench) -> Bench:
    repository(
        bench.workspace,
        {
            ".gitignore": "build/\n",
            "src/Main.py": "import os\n\ndef main():\n    pass  # TODO main\n",
            "src/other.py": "x = 1\r\nmain = 2\r\n",
            "docs/main.md": "Main\n",
        },
    )
    bench.make_folder("build")
    bench.put("build/main.o", b"main\n")
    bench.put("src/new_main.py", b"main\n")
    return bench


def test_names_are_found_by_a_part_or_a_glob(project: Bench) -> None:
    assert found(project, "main") == ["docs/main.md", "src/Main.py", "src/new_main.py"]
    assert found(project, "main", case=True) == ["docs/main.md", "src/new_main.py"]
    assert found(project, "*.py") == ["src/Main.py", "src/new_main.py", "src/other.py"]
    assert found(project, "src/[mn]*") == ["src/Main.py", "src/new_main.py"]
    assert found(project, "main", path="docs") == ["docs/main.md"]


def test_content_is_found_line_by_line(project: Bench) -> None:
    assert grep(project, "main()", path="src") == [("src/Main.py", 3, 5, "def main():")]
    assert grep(project, "todo MAIN") == [("src/Main.py", 4, 13, "    pass  # TODO main")]
    assert grep(project, "todo MAIN", case=True) == []
    assert [m[0] for m in grep(project, "main")].count("src/Main.py") == 2


def test_what_is_ignored_is_searched_only_if_asked(project: Bench) -> None:
    everywhere = found(project, "main.o", ignored=True)
    assert everywhere == ["build/main.o"]
    assert found(project, "main.o") == []
    assert "build/main.o" in [m[0] for m in grep(project, "main", ignored=True)]
    assert "build/main.o" not in [m[0] for m in grep(project, "main")]


def test_a_repository_inside_is_searched_by_its_own_rules(project: Bench, tmp_path: Path) -> None:
    inner = repository(project.workspace / "inner", {".gitignore": "out\n", "main.c": "main\n"})
    (inner / "out").write_text("main\n")
    library = repository(tmp_path / "library", {"main.lib": "main\n"})
    git(project.workspace, "submodule", "--quiet", "add", str(library), "sub")
    assert "inner/main.c" in found(project, "main")
    assert "sub/main.lib" in found(project, "main")
    assert found(project, "out") == []
    assert {"inner/main.c", "sub/main.lib"} <= {m[0] for m in grep(project, "main")}
    assert found(project, "main", path="sub") == ["sub/main.lib"]


def test_binary_and_large_files_are_counted_and_left_out(project: Bench) -> None:
    project.put("blob", b"\0main")
    (project.workspace / "large").write_bytes(b"main\n" * 1_000_000)
    answer = search(project, "main", **{"in": "content"})
    assert (answer["skipped_binary"], answer["skipped_large"]) == (1, 1)
    assert not {"blob", "large"} & {match["path"] for match in answer["matches"]}


def test_finds_are_bounded_and_that_is_said(project: Bench) -> None:
    project.put("many", b"main\n" * 500)
    answer = search(project, "main", **{"in": "content"}, limit=100)
    assert (len(answer["matches"]), answer["truncated"]) == (100, "limit")
    project.put("long", b"x" * 10_000 + b"needle" + b"y" * 10_000)
    [(_, line, column, text)] = grep(project, "needle")
    assert (line, column) == (1, 10_001)
    assert "needle" in text
    assert len(text) < 400


def test_links_are_not_followed_and_odd_names_are_found(project: Bench) -> None:
    (project.workspace / "link").symlink_to("/etc")
    (project.workspace / "passwd").symlink_to("/etc/passwd")
    odd = os.fsencode(project.workspace) + b"/n\nmain\xff"
    Path(os.fsdecode(odd)).write_text("main\n")
    assert encode_path(b"n\nmain\xff") in found(project, "main")
    assert encode_path(b"n\nmain\xff") in [m[0] for m in grep(project, "main")]
    assert grep(project, "root:") == []
    assert grep(project, "root:", ignored=True) == []


def test_without_a_repository_folders_are_walked(bench: Bench) -> None:
    bench.make_folder("a/b", parents=True)
    bench.put("a/b/f", b"needle\n")
    os.mkfifo(bench.workspace / "a/fifo")
    assert found(bench, "f") == ["a/b/f"]
    assert grep(bench, "needle") == [("a/b/f", 1, 1, "needle")]


def test_queries_that_are_none_are_refused(bench: Bench) -> None:
    for query, more in (("", {}), ("a\nb", {}), ("x", {"in": "else"}), ("*" * 50, {})):
        assert code_of(search, bench, query, **more) == "invalid_request"


def test_a_glob_and_a_file_made_to_take_for_ever_do_not(bench: Bench) -> None:
    bench.put("a" * 250, b"a" * 3_000_000)
    assert found(bench, "*a" * 10 + "b") == []
    assert grep(bench, "a" * 900 + "b") == []
