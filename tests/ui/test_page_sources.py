"""The page's own unit tests and types, run by Node; and how large the page is."""

import gzip
from types import ModuleType


def _checked(page_builder: ModuleType, script: str, *words: str) -> None:
    done = page_builder.run_script(script, *words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_no_type_errors(page_builder: ModuleType) -> None:
    _checked(page_builder, "tsc", "--noEmit")


def test_the_units_of_the_page_do_what_they_say(page_builder: ModuleType) -> None:
    _checked(page_builder, "vitest", "run", "--no-color")


def test_the_page_stays_small(page_builder: ModuleType) -> None:
    """What a first visit loads, packed; the terminal comes when it is opened."""
    assets = page_builder.PLACE / "assets"
    first = [*assets.glob("page-*.js"), *assets.glob("page-*.css")]
    assert first
    size = sum(len(gzip.compress(each.read_bytes())) for each in first)
    assert size < 120_000, f"{size} bytes"
