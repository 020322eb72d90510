"""A command's parser that takes options anywhere: before, between and after what has no dash.

The standard library's own parser gives an optional argument its (empty) value as soon as it meets
the first option, so `shell NAME --name tests -- make test` would be refused. It can do better, but
not for a parser that has commands of its own. What a command means is not known here.
"""

import argparse
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """For the commands at the end of the tree; those above them are read as ever."""

    _is_inside = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the library's, but with options in any place."""
        if self._is_inside or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False
