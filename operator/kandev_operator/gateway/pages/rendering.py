"""From views to HTML: everything is escaped text, and the data goes along for the live page.

Nothing that an agent or a person wrote becomes markup here, nor ends the block of data that the
page's script reads. It refuses to know who asks, and where the views come from.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kandev_operator.gateway.pages.built import Built
from kandev_operator.gateway.wire.messages import Message

TEMPLATES: Final = Path(__file__).parent / "templates"
_HARMFUL: Final = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


class Renderer:
    """Renders the templates beside it with what was built."""

    def __init__(self, built: Built) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )
        self._environment.filters |= {"words": _words, "word": _word, "plain": _plain}
        self._environment.globals["built"] = built

    def render(self, template: str, nonce: str, data: Mapping[str, Any], **shown: Any) -> str:
        """The page; `data` is what its script begins with."""
        found = self._environment.get_template(template)
        return found.render(nonce=nonce, data=embedded(data), **shown)


def embedded(data: Mapping[str, Any]) -> Markup:
    """JSON that can stand in a script element, whatever strings it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.translate(_HARMFUL))  # JSON has these in strings only


def _words(state: str) -> str:
    return state.replace("_", " ").lower()


def _word(text: str) -> str:
    """A name from the wire as a class name."""
    return re.sub(r"[^A-Za-z0-9_-]", "", text)


def _plain(message: Message) -> str:
    """What a reader without the live page gets of a message."""
    if message.text:
        return message.text
    content = message.content or {}
    title = content.get("title")
    if isinstance(title, str):
        return f"[{message.kind}] {title}"
    return f"[{message.kind}]"
