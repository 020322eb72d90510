"""How the operator logs: placeholder that sets up the root logger; edges are logged once."""

import logging


def set_up(log_format: str, level: str) -> None:
    """Log to stderr."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("kopf", "aiohttp", "kopf.objects"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class EdgeLog:
    """Logs a text for a key and topic only when it changes."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], str] = {}

    def log(self, key: str, topic: str, level: int, text: str) -> None:
        """Log it, if it is news."""
        if self._last.get((key, topic)) != text:
            self._last[key, topic] = text
            logging.getLogger("kandev").log(level, "%s: %s", key, text)

    def forget(self, key: str) -> None:
        """The object is gone."""
        for known in [k for k in self._last if k[0] == key]:
            del self._last[known]
