"""Archives that are expensive to make, kept in the user's cache: made once, found ever after.

A `Recipe` says how an archive is made and what goes into it. The name of the file in the cache is a
hash of that, so a change makes a new one, and nobody meets an old one. Half an archive never has
the name of a whole one. One process makes archives at a time; the others wait, and find what it
made.
"""

import fcntl
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import build
from cluster.images import oci

_KEEP_UNUSED_SECONDS = 14 * 24 * 3600
_held = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an archive is made: `make(archive, scratch)` writes it, and has a folder for itself.

    `ingredients` are words, and paths whose content counts; folders count with all that is in them.
    """

    name: str
    description: str
    minutes: int
    make: Callable[[Path, Path], None]
    ingredients: Sequence[str | Path]


def cached(recipe: Recipe) -> Path:
    """Return the archive, making it if nobody has."""
    folder = build.cache_folder() / "images"
    archive = folder / f"{recipe.name}-{_key(recipe)}.tar"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _only_maker(folder):
            if not archive.exists():
                _make(recipe, archive)
    os.utime(archive)  # says "in use" to _forget_unused
    return archive


def digest_of(ingredients: Sequence[str | Path]) -> str:
    """Return a hash of words and of the names and content of files."""
    digest = hashlib.sha256()
    for ingredient in ingredients:
        if isinstance(ingredient, str):
            digest.update(f"word {len(ingredient)}\n{ingredient}".encode())
            continue
        for path in _files(ingredient):
            content = path.read_bytes()
            name = path.relative_to(ingredient.parent)
            digest.update(f"file {name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _key(recipe: Recipe) -> str:
    return digest_of([platform.machine(), f"layout {oci.LAYOUT}", *recipe.ingredients])


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for entry in sorted(path.rglob("*")):
        if entry.is_file() and "__pycache__" not in entry.parts:
            yield entry


def _make(recipe: Recipe, archive: Path) -> None:
    started = time.monotonic()
    _tell(f"making {recipe.description}: this takes about {recipe.minutes} min, once")
    with tempfile.TemporaryDirectory(prefix="kandev-image-") as scratch:
        recipe.make(archive, Path(scratch))
    _tell(f"made in {time.monotonic() - started:.0f} s")
    oldest = time.time() - _KEEP_UNUSED_SECONDS
    for other in archive.parent.glob("*.tar"):
        if other != archive and other.stat().st_mtime < oldest:
            other.unlink()


@contextmanager
def _only_maker(folder: Path) -> Iterator[None]:
    """Hold the machine's one permit; a recipe that needs another's archive holds it already."""
    global _held
    with (folder / "make.lock").open("w") as lock:
        if not _held:
            fcntl.flock(lock, fcntl.LOCK_EX)
        _held += 1
        try:
            yield
        finally:
            _held -= 1


def _tell(line: str) -> None:
    print(f"images: {line}", file=sys.stderr, flush=True)
