"""From Pydantic models to the structural schemas that a CustomResourceDefinition may hold.

Pydantic speaks JSON Schema 2020-12; a CRD takes a narrow part of OpenAPI 3.0: no references, one
type for each node, no null. `structural` translates what our models need and refuses the rest
loudly, at generation time, where a person reads it.

Two differences between a spec and a status are made here. A spec's defaults and examples become
words in the description, since a default that the server stores can never be improved (the rare
exception is marked in the model). A status gets no rules at all: an operator newer than the
installed CRD must still be able to write what it knows.
"""

from collections.abc import Mapping
from typing import Any, Final

from kandev_operator.api.markers import LIST_MAP_KEYS, STORED_DEFAULT, VALIDATIONS, rule
from kandev_operator.api.meta import Model

Node = dict[str, Any]

# Keys that a CRD takes, in the order in which they are easiest to read.
_KEYS: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    LIST_MAP_KEYS,
    VALIDATIONS,
)
_LIMITS: Final = frozenset(_KEYS[_KEYS.index("minimum") : _KEYS.index("required")])
_DROPPED: Final = frozenset({"title", "examples", STORED_DEFAULT})


class NotStructural(TypeError):
    """A model says something that a CRD cannot. The path tells where."""


def spec_schema(model: type[Model]) -> Node:
    """The schema of what users write, with every rule."""
    return _translate(model)


def status_schema(model: type[Model]) -> Node:
    """The schema of what the operator writes: shapes and descriptions, no rules."""
    return _without_rules(_translate(model))


def _translate(model: type[Model]) -> Node:
    raw = model.model_json_schema(by_alias=True, mode="validation")
    definitions = raw.pop("$defs", {})
    # A definition's name leads back to its class, and so to `one_of`.
    classes = {each.__name__: each for each in _subclasses(Model)}
    return _Translation(definitions, classes).node(_with_class(raw, model), model.__name__)


def _subclasses(model: type[Model]) -> set[type[Model]]:
    direct = set(model.__subclasses__())
    return direct.union(*(_subclasses(each) for each in direct))


def _with_class(node: Node, model: type[Model]) -> Node:
    """Add the CEL rule of a model of which exactly one field must be given."""
    if not model.one_of:
        return node
    given = ", ".join(f"has(self.{model.alias_of(name)})" for name in model.one_of)
    exactly_one = rule(f"[{given}].exists_one(x, x)", model.one_of_message())
    return {**node, VALIDATIONS: [exactly_one, *node.get(VALIDATIONS, [])]}


class _Translation:
    """One walk over one model's schema."""

    def __init__(self, definitions: Node, classes: Mapping[str, type[Model]]) -> None:
        self.definitions = definitions
        self.classes = classes

    def node(self, given: Node, path: str, inside: tuple[str, ...] = ()) -> Node:
        """Translate one node and all below it."""
        if "$ref" in given:
            return self._inlined(given, path, inside)
        if "anyOf" in given:
            return self._one_type(given, path, inside)
        node = _told(given)
        if "properties" in node:
            node["properties"] = {
                name: self.node(each, f"{path}.{name}", inside)
                for name, each in node["properties"].items()
            }
            node.pop("additionalProperties", None)
        elif node.get("type") == "object":
            self._open_object(node, path, inside)
        if "items" in node:
            node["items"] = self.node(node["items"], f"{path}[]", inside)
            # Nothing shows it, and the field that holds the list is described.
            node["items"].pop("description", None)
        if node.get("type") == "integer":
            node["format"] = "int64"
        return _checked(node, path)

    def _inlined(self, given: Node, path: str, inside: tuple[str, ...]) -> Node:
        name = given["$ref"].rsplit("/", 1)[-1]
        if name in inside:
            raise NotStructural(f"{path}: {name} contains itself")
        target = self.definitions[name]
        if name in self.classes:
            target = _with_class(target, self.classes[name])
        own = {key: value for key, value in given.items() if key != "$ref"}
        return self.node(_merged(target, own), path, (*inside, name))

    def _one_type(self, given: Node, path: str, inside: tuple[str, ...]) -> Node:
        """`X | None` is X, and may be absent; text or number is Kubernetes' own mixed type."""
        own = {key: value for key, value in given.items() if key != "anyOf"}
        choices = [each for each in given["anyOf"] if each.get("type") != "null"]
        if len(choices) == 1:
            return self.node(_merged(choices[0], own), path, inside)
        if {each.get("type") for each in choices} == {"string", "integer"}:
            return _checked(_told(own) | {"x-kubernetes-int-or-string": True}, path)
        raise NotStructural(f"{path}: a choice of types")

    def _open_object(self, node: Node, path: str, inside: tuple[str, ...]) -> None:
        values = node.pop("additionalProperties", True)
        if isinstance(values, dict):
            node["additionalProperties"] = self.node(values, f"{path}{{}}", inside)
        else:
            node["x-kubernetes-preserve-unknown-fields"] = True


def _merged(target: Node, own: Node) -> Node:
    """A type's node, with what the field itself says laid over it; rules add up."""
    merged = target | own
    if VALIDATIONS in target and VALIDATIONS in own:
        merged[VALIDATIONS] = [*target[VALIDATIONS], *own[VALIDATIONS]]
    return merged


def _told(given: Node) -> Node:
    """Turn default and example into words; keep the default only where it is to be stored."""
    node = {key: value for key, value in given.items() if key not in _DROPPED}
    words = [node["description"]] if "description" in node else []
    default = node.pop("default", None)
    if isinstance(default, str | int):
        words.append(f"Default: `{_in_words(default)}`.")
        if given.get(STORED_DEFAULT):
            node["default"] = default
    if given.get("examples"):
        words.append(f"Example: `{_in_words(given['examples'][0])}`.")
    if words:
        node["description"] = " ".join(" ".join(words).split())
    return node


def _in_words(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(_in_words(each) for each in value)}]"
        case dict():
            pairs = ", ".join(f"{key}: {_in_words(each)}" for key, each in value.items())
            return f"{{{pairs}}}"
        case _:
            return str(value)


def _checked(node: Node, path: str) -> Node:
    """The node with its keys in order, or the reason why no CRD can hold it."""
    unknown = node.keys() - set(_KEYS)
    if unknown:
        raise NotStructural(f"{path}: a CRD has no {', '.join(sorted(unknown))}")
    if "type" not in node and "x-kubernetes-int-or-string" not in node:
        raise NotStructural(f"{path}: no type")
    return {key: node[key] for key in _KEYS if key in node}


def _without_rules(node: Node) -> Node:
    """The shape alone. Only the keys of list maps stay required: a list map needs them."""
    bare = {
        key: value
        for key, value in node.items()
        if key not in _LIMITS | {"enum", "required", "default", VALIDATIONS}
    }
    if "properties" in bare:
        bare["properties"] = {
            name: _without_rules(each) for name, each in bare["properties"].items()
        }
    if isinstance(bare.get("additionalProperties"), dict):
        bare["additionalProperties"] = _without_rules(bare["additionalProperties"])
    if "items" in bare:
        bare["items"] = _without_rules(bare["items"])
        if LIST_MAP_KEYS in bare:
            bare["items"]["required"] = bare[LIST_MAP_KEYS]
    return {key: bare[key] for key in _KEYS if key in bare}
