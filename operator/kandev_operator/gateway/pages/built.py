"""Where the built page lies, and which files of it a rendered page must name.

The page's build names files by their content, so browsers may keep them for a year; `manifest.json`
says which are today's. It refuses to know how the page is built, and what is in it.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).parent / "static"
PREFIX: Final = "/static"
_ENTRY: Final = "src/main.tsx"


class NotBuilt(Exception):
    """There is no built page here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Built:
    """Addresses of what a page loads."""

    script: str
    styles: tuple[str, ...]
    theme: str
    icon: str


def load(place: Path = PLACE) -> Built:
    """Read what was built. Raises NotBuilt."""
    try:
        manifest = json.loads((place / "manifest.json").read_text())
        entry = manifest[_ENTRY]
        return Built(
            script=f"{PREFIX}/{entry['file']}",
            styles=tuple(f"{PREFIX}/{each}" for each in entry.get("css", ())),
            theme=_versioned(place, "theme.js"),
            icon=_versioned(place, "icon.svg"),
        )
    except (OSError, KeyError, ValueError) as why:
        raise NotBuilt("the web page was not built: run `make web`") from why


def _versioned(place: Path, name: str) -> str:
    digest = hashlib.sha256((place / name).read_bytes()).hexdigest()[:12]
    return f"{PREFIX}/{name}?v={digest}"
