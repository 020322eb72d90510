"""Nothing leads out of the workspace: whatever is asked, linked, or swapped meanwhile."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kandev_operator.agentctl.beneath import Names, Root, told
from kandev_operator.agentctl.files import reading
from kandev_operator.agentctl.files.tree import scan
from kandev_operator.agentctl.files.writing import Precondition, Writer
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code

SECRET = b"what lies outside"
ANY = Precondition("*")


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A workspace beside a folder that is nobody's business, and agentctl's own folder in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(SECRET)
    workspace = tmp_path / "workspace"
    (workspace / ".kandev/state/sessions").mkdir(parents=True)
    (workspace / ".kandev/state/journal").write_bytes(SECRET)
    return workspace


@pytest.fixture
def root(ground: Path) -> Root:
    return Root(ground, ground / ".kandev/state")


def code(call: object, *args: object, **more: object) -> Code:
    assert callable(call)
    with pytest.raises(Refusal) as refused:
        call(*args, **more)
    return refused.value.code


def names(text: str) -> Names:
    return tuple(os.fsencode(part) for part in text.split("/"))


# ---- one by one ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["../outside/secret", "/etc/passwd", "a/../../outside/secret", "..", "/"]
)
def test_a_link_that_leads_out_is_refused(ground: Path, root: Root, target: str) -> None:
    (ground / "a").mkdir()
    (ground / "link").symlink_to(target)
    (ground / "folder").symlink_to("../outside")
    assert code(reading.read, root, (b"link",), None) is Code.OUTSIDE_WORKSPACE
    assert code(reading.read, root, names("folder/secret"), None) is Code.OUTSIDE_WORKSPACE
    assert code(Writer(root).write, (b"link",), b"x", ANY, None) is Code.OUTSIDE_WORKSPACE
    assert code(scan, root, (b"folder",), None, 10, False) is Code.OUTSIDE_WORKSPACE
    assert (ground.parent / "outside/secret").read_bytes() == SECRET


def test_a_link_that_stays_inside_is_followed(ground: Path, root: Root) -> None:
    (ground / "a/b").mkdir(parents=True)
    (ground / "a/b/file").write_bytes(b"inside")
    (ground / "one").symlink_to("a/b/../b/./file")
    (ground / "a/up").symlink_to("../one")
    (ground / "folder").symlink_to("a")
    assert reading.read(root, (b"one",), None).data == b"inside"
    assert reading.read(root, names("folder/up"), None).data == b"inside"
    Writer(root).write((b"one",), b"new", ANY, None)
    assert (ground / "one").is_symlink()
    assert (ground / "a/b/file").read_bytes() == b"new"


def test_a_link_to_nothing_can_be_written_through(ground: Path, root: Root) -> None:
    (ground / "to").mkdir()
    (ground / "link").symlink_to("to/new")
    Writer(root).write((b"link",), b"x", Precondition(None), None)
    assert (ground / "to/new").read_bytes() == b"x"
    (ground / "bad").symlink_to("nowhere/new")
    call = Writer(root).write
    assert code(call, (b"bad",), b"x", Precondition(None), None) is Code.FILE_NOT_FOUND


def test_links_in_a_circle_end(ground: Path, root: Root) -> None:
    (ground / "a").symlink_to("b")
    (ground / "b").symlink_to("a")
    assert code(reading.read, root, (b"a",), None) is Code.INVALID_REQUEST


def test_links_that_multiply_end(ground: Path, root: Root) -> None:
    """Each link names the one before many times: the way would be longer than anybody's life."""
    (ground / "d").mkdir()
    before = "d"
    for number in range(12):
        name = f"l{number}"
        (ground / name).symlink_to("/".join([f"{before}/.."] * 10 + [before]))
        before = name
    assert code(reading.read, root, (before.encode(), b"x"), None) is Code.INVALID_REQUEST


def test_deleting_and_renaming_take_the_link_itself(ground: Path, root: Root) -> None:
    (ground / "link").symlink_to("../outside")
    writer = Writer(root)
    writer.rename((b"link",), (b"moved",), overwrite=False)
    writer.delete((b"moved",), recursive=True, before=None)
    assert (ground.parent / "outside/secret").read_bytes() == SECRET


def test_the_state_folder_does_not_exist_here(ground: Path, root: Root) -> None:
    (ground / "link").symlink_to(".kandev/state")
    (ground / "x").write_bytes(b"x")
    for way in (".kandev/state", "link"):
        found = code(scan, root, names(way), None, 10, False)
        assert found is Code.FILE_NOT_FOUND
        assert code(reading.read, root, names(way + "/journal"), None) is Code.FILE_NOT_FOUND
    assert code(reading.describe, root, names(".kandev/state")) is Code.FILE_NOT_FOUND
    rows, _ = scan(root, (b".kandev",), None, 10, False)
    assert rows == []
    writer = Writer(root)
    call = writer.write
    assert code(call, names("link/new"), b"x", Precondition(None), None) is Code.FILE_NOT_FOUND
    for way in (".kandev", ".kandev/state"):
        assert code(writer.rename, names(way), (b"y",), overwrite=True) is Code.OUTSIDE_WORKSPACE
        refused = code(writer.delete, names(way), recursive=True, before=None)
        assert refused is Code.OUTSIDE_WORKSPACE
    assert code(writer.rename, (b"x",), names(".kandev/state"), overwrite=True) in (
        Code.OUTSIDE_WORKSPACE,
        Code.NOT_A_FILE,
    )
    assert (ground / ".kandev/state/journal").read_bytes() == SECRET


def test_nothing_stays_open(ground: Path, root: Root) -> None:
    (ground / "a/b/c").mkdir(parents=True)
    (ground / "link").symlink_to("../outside")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        for way in ("a/b/c/none", "link/secret", "a/b", "none/none"):
            with suppress(Refusal):
                reading.read(root, names(way), None)
            with suppress(Refusal):
                scan(root, names(way), None, 10, False)
    assert len(os.listdir("/proc/self/fd")) == before


# ---- whatever is linked ----------------------------------------------------------------

PARTS = st.sampled_from(["a", "b", "c", "..", ".", "", "outside", "secret", ".kandev", "state"])
TARGETS = st.builds(
    lambda first, parts: first + "/".join(parts),
    st.sampled_from(["", "/", "../", "./"]),
    st.lists(PARTS, min_size=1, max_size=5),
)
WORLD = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join),
    st.one_of(st.none(), st.just(b"inside"), TARGETS),
    max_size=8,
)
WAYS = st.lists(PARTS.filter(bool), min_size=1, max_size=5)


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(world=WORLD, way=WAYS)
def test_whatever_is_linked_only_what_is_inside_is_read_and_written(
    tmp_path_factory: pytest.TempPathFactory, world: dict[str, bytes | str | None], way: list[str]
) -> None:
    base = tmp_path_factory.mktemp("world")
    (base / "outside").mkdir()
    (base / "outside/secret").write_bytes(SECRET)
    ground = base / "workspace"
    (ground / ".kandev/state").mkdir(parents=True)
    (ground / ".kandev/state/secret").write_bytes(SECRET)
    for path, what in sorted(world.items()):
        with suppress(OSError, ValueError):
            place = ground / path
            if what is None:
                place.mkdir(parents=True)
            elif isinstance(what, bytes):
                place.write_bytes(what)
            elif what:
                place.symlink_to(what)
    root = Root(ground, ground / ".kandev/state")
    # The world itself may have been made through a link that leads out.
    before = everything_but(ground, base)
    asked = tuple(part.encode() for part in way)
    writer = Writer(root)
    calls = (
        lambda: reading.read(root, asked, None).data,
        lambda: [row.entry.path for row in scan(root, asked, None, 10, False)[0]],
        lambda: writer.write(asked, b"new", ANY, None),
        lambda: writer.write(asked, b"new", Precondition(None), None),
        lambda: writer.rename(asked, (b"z",), overwrite=False),
        lambda: writer.make_folder((*asked, b"n"), parents=True),
        lambda: writer.delete(asked, recursive=True, before=None),
    )
    for call in calls:
        with suppress(Refusal):
            found = call()
            assert found != SECRET
            assert not (isinstance(found, list) and any("secret" in path for path in found))
    assert everything_but(ground, base) == before


def everything_but(ground: Path, base: Path) -> dict[str, bytes | None]:
    """What lies outside of the workspace, and in agentctl's folder: paths and content."""
    found: dict[str, bytes | None] = {}
    for top in (base, ground / ".kandev/state"):
        for folder, folders, files in os.walk(top):
            if top == base and "workspace" in folders and folder == str(base):
                folders.remove("workspace")
            found |= {os.path.join(folder, name): None for name in folders}
            found |= {
                path: Path(path).read_bytes()
                for path in (os.path.join(folder, name) for name in files)
                if not os.path.islink(path)
            }
    return found


# ---- whatever is swapped ---------------------------------------------------------------


@pytest.fixture
def swapping(ground: Path) -> Iterator[None]:
    """Somebody who swaps a folder for a link that leads out, and back, all the time."""
    folder = ground / "swapped"
    folder.mkdir()
    (folder / "secret").write_bytes(b"inside")
    (folder / "deep").mkdir()
    (folder / "deep/secret").write_bytes(b"inside")
    (ground.parent / "outside/deep").mkdir()
    (ground.parent / "outside/deep/secret").write_bytes(SECRET)
    over = threading.Event()

    def swap() -> None:
        link, aside = ground / ".link", ground / ".aside"
        while not over.is_set():
            link.symlink_to("../outside")
            folder.rename(aside)
            link.rename(folder)
            folder.unlink()
            aside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    over.set()
    thread.join()


ROUNDS = 1500


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(
    ground: Path, root: Root, swapping: None
) -> None:
    seen: set[bytes] = set()
    refused: set[Code] = set()
    writer = Writer(root)
    for number in range(ROUNDS):
        way = names(("swapped/secret", "swapped/deep/secret")[number % 2])
        try:
            seen.add(reading.read(root, way, None).data)
            if number % 3 == 0:
                writer.write((*way[:-1], b"new"), b"new", ANY, None)
            elif number % 3 == 1:
                writer.write((*way[:-1], b"new"), b"new", Precondition(None), None)
            else:
                writer.delete((*way[:-1], b"new"), recursive=True, before=None)
        except Refusal as exc:
            refused.add(exc.code)
        with suppress(Refusal):
            rows, _ = scan(root, way[:-1], None, 10, False)
            assert all(row.entry.kind != "other" for row in rows)
    assert SECRET not in seen
    assert seen == {b"inside"}
    assert refused <= {
        Code.OUTSIDE_WORKSPACE,
        Code.FILE_NOT_FOUND,
        Code.PRECONDITION_FAILED,
        Code.NOT_A_FILE,
        Code.NOT_A_FOLDER,
        Code.INVALID_REQUEST,
    }
    assert sorted(os.listdir(ground.parent / "outside")) == ["deep", "secret"]
    assert os.listdir(ground.parent / "outside/deep") == ["secret"]


def test_a_plain_open_would_be_led_out(ground: Path, swapping: None) -> None:
    """The trap is one: who resolves the path first and opens it then meets what lies outside."""
    for _ in range(200_000):
        with suppress(OSError):
            path = ground / "swapped/secret"
            if path.resolve().is_relative_to(ground) and path.read_bytes() == SECRET:
                return
    raise AssertionError("nobody was ever led out: the test before proves nothing")


def test_a_file_that_is_swapped_for_a_fifo_is_not_waited_for(ground: Path, root: Root) -> None:
    over = threading.Event()
    file, fifo, link = ground / "f", ground / ".fifo", ground / ".file"

    def swap() -> None:
        while not over.is_set():
            os.mkfifo(fifo)
            fifo.rename(file)
            link.write_bytes(b"inside")
            link.rename(file)

    file.write_bytes(b"inside")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(ROUNDS):
            with suppress(Refusal):
                assert reading.read(root, (b"f",), None).data == b"inside"
    finally:
        over.set()
        thread.join()


def test_what_the_system_says_is_told_without_a_path(ground: Path, root: Root) -> None:
    with pytest.raises(Refusal) as refused, told():
        os.open(ground / "none", os.O_RDONLY)
    assert str(ground) not in refused.value.message
    assert stat.S_ISDIR(ground.stat().st_mode)
