"""The package's build compiles the page into the wheel; an editable install gets it, too.

What is done, and with which Node, says `operator/kandev_operator/gateway/web/build.py`. A source
distribution carries the built page, so that whoever installs from one needs no Node.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILDER = Path("operator", "kandev_operator", "gateway", "web", "build.py")


class PageHook(BuildHookInterface):
    """Makes sure that the page of these very sources lies where it is taken from."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        builder = self._builder()
        current = builder.stamp_of(builder.PLACE) == builder.fingerprint(builder.SOURCES)
        return [] if current or builder.has_node() else [builder.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._builder().ensure()

    def _builder(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location("page_build", Path(self.root, _BUILDER))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
