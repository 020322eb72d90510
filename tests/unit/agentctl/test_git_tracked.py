"""What is asked of the index, and when: a repository that counts what it was asked for."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from kandev_operator.agentctl.git.tracked import FEW, Tracked
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code

INDEX = (b"a/keep", b"b", b"many/1/f", b"many/2", b"odd\xff/f")


class Counting:
    """A git whose index is `INDEX`, and which gives its answers in small pieces."""

    def __init__(self, folder: Path) -> None:
        self.git_dir = bytes(folder)
        self.asked: list[Sequence[str]] = []
        self.code = 0
        self.stdin = self

    def close(self) -> None:
        """Nothing is written to it."""

    def refusal(self, err: bytes) -> Refusal:
        return Refusal(Code.GIT_FAILED, err.decode())

    @asynccontextmanager
    async def streaming(self, *args: str) -> AsyncIterator["Counting"]:
        self.asked.append(args[args.index("--") + 1 :] if "--" in args else ())
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        whole = b"".join(path + b"\0" for path in INDEX)
        for start in range(0, len(whole), 5):
            yield whole[start : start + 5]

    async def wait(self) -> tuple[int, bytes]:
        return self.code, b"no"


@pytest.fixture
def git(tmp_path: Path) -> Counting:
    (tmp_path / "index").write_text("one")
    return Counting(tmp_path)


async def among(tracked: Tracked, git: Counting, *paths: bytes) -> set[bytes]:
    return set(await tracked.among(cast(Any, git), paths))


async def test_files_and_the_folders_above_them_are_found(git: Counting) -> None:
    wanted = (b"a", b"a/keep", b"a/other", b"b", b"bb", b"many/1", b"odd\xff", b"k")
    found = await among(Tracked(), git, *wanted)
    assert found == {b"a", b"a/keep", b"b", b"many/1", b"odd\xff"}


async def test_an_answer_is_remembered_while_the_index_is_the_same(git: Counting) -> None:
    tracked = Tracked()
    assert await among(tracked, git, b"a", b"x") == {b"a"}
    assert await among(tracked, git, b"x", b"a") == {b"a"}
    assert await among(tracked, git, b"a", b"b", b"y") == {b"a", b"b"}
    assert git.asked == [("a", "x"), ("b", "y")]
    (Path(git.git_dir.decode()) / "index").write_text("another")
    assert await among(tracked, git, b"a") == {b"a"}
    assert git.asked[2:] == [("a",)]


async def test_many_are_looked_for_in_the_folder_that_holds_them_all(git: Counting) -> None:
    many = [b"many/%d" % number for number in range(FEW + 1)]
    assert await among(Tracked(), git, *many) == {b"many/1", b"many/2"}
    assert await among(Tracked(), git, *many, b"other") == {b"many/1", b"many/2"}
    assert git.asked == [("many",), ()]


async def test_without_an_index_nothing_is_tracked_and_a_failure_is_no_answer(
    git: Counting,
) -> None:
    git.code = 128
    with pytest.raises(Refusal):
        await among(Tracked(), git, b"a", b"x")
    (Path(git.git_dir.decode()) / "index").unlink()
    assert await among(Tracked(), git, b"a") == set()
