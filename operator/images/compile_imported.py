"""Compiles the modules that a program loads, and no others, beside their sources.

`python -B compile_imported.py MODULE…`. The compiled files name no time of their source, so they
stay valid whatever a build tool does to times. Run while an image is built: an operator that may
not write beside its sources would else compile them at every start.
"""

import importlib
import py_compile
import sys
from pathlib import Path


def main(names: list[str]) -> None:
    for name in names:
        importlib.import_module(name)
    library = Path(py_compile.__file__).parent
    sources = {
        Path(module.__file__)
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None) and module.__file__.endswith(".py")
    }
    for source in sorted(sources):
        if not source.is_relative_to(library) and source != Path(__file__):
            py_compile.compile(
                str(source),
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
