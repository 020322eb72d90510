"""The page's TypeScript types, written from the models that the gateway speaks with.

`python -m kandev_operator.gateway.pages.wiretypes --write web/src/wire.ts` renders them; a test
compares the committed file with what would be written now. It knows JSON schema as Pydantic makes
it, and nothing of what a field means. A field that may be left out is optional here.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kandev_operator.api import reasons
from kandev_operator.api.words import Word
from kandev_operator.contract import files, git
from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.wire import envelope, messages, notices, requests, views

MODULES: Final = (envelope, messages, views, requests, notices)
ANSWERS: Final[tuple[type[Wire], ...]] = (
    files.TreePage,
    files.WriteAnswer,
    files.SearchAnswer,
    git.GitStatus,
    git.GitDiff,
    git.GitLog,
)
"""What agentctl answers and the gateway hands on."""

_HEAD: Final = """\
// Written by `python -m kandev_operator.gateway.pages.wiretypes`. Change the models, not this file.
"""
_PLAIN: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def render() -> str:
    """The whole file: each model once, under its own name, sorted."""
    schemas: dict[str, dict[str, Any]] = {}
    for model in (*_models(), *ANSWERS):
        schema = model.model_json_schema()
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    enums = {each.__name__: [str(member.value) for member in each] for each in _enums()}
    parts = [_union(name, values) for name, values in enums.items()]
    parts += [_declared(name, schemas[name]) for name in schemas if name not in enums]
    return _HEAD + "".join(f"\n{part}" for part in (*sorted(parts), _sentences()))


def _sentences() -> str:
    """What each word of `resume_reason` means, for people."""
    words = {
        reasons.resume_word(member): member.doc
        for each in _own(reasons)
        if issubclass(each, Word)
        for member in each
    }
    lines = [f"  {word}: {json.dumps(words[word])},\n" for word in sorted(words)]
    return f"export const MEANINGS: Record<string, string> = {{\n{''.join(lines)}}};\n"


def _members(kind: type) -> Iterable[Any]:
    for module in MODULES:
        yield from (each for each in _own(module) if issubclass(each, kind))


def _own(module: ModuleType) -> list[type]:
    found = inspect.getmembers(module, inspect.isclass)
    return [each for _, each in found if each.__module__ == module.__name__]


def _models() -> Iterable[type[Wire]]:
    return _members(Wire)


def _enums() -> Iterable[type[StrEnum]]:
    return _members(StrEnum)


def _union(name: str, values: Iterable[str]) -> str:
    return f"export type {name} =" + "".join(f'\n  | "{value}"' for value in values) + ";\n"


def _declared(name: str, schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return _union(name, schema["enum"])
    required = schema.get("required", ())
    lines = [
        f"  {field}{'' if field in required else '?'}: {_type(of)};\n"
        for field, of in schema.get("properties", {}).items()
    ]
    return f"export interface {name} {{\n{''.join(lines)}}}\n"


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"const": value}:
            return f'"{value}"'
        case {"enum": list(values)}:
            return " | ".join(f'"{value}"' for value in values)
        case {"anyOf": list(choices)}:
            return " | ".join(_type(each) for each in choices)
        case {"type": "array"}:
            return f"readonly ({_type(schema.get('items', {}))})[]"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"Record<string, {_type(values)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": str(kind)}:
            return _PLAIN[kind]
        case _:
            return "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the file to write, else to standard output")
    target = parser.parse_args().write
    if target is None:
        sys.stdout.write(render())
    else:
        target.write_text(render())


if __name__ == "__main__":
    main()
