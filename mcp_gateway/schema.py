"""JSON Schemas of structs, written so that any client copes: no `$ref`, required arguments first. Pure."""

from functools import cache
from typing import Any, cast

import msgspec


@cache
def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct that does not contain itself, as one self-contained object. Shared: do not change it."""
    (root,), definitions = msgspec.json.schema_components([struct])
    return _inlined(root, {f"#/$defs/{name}": part for name, part in definitions.items()})


def _inlined(node: Any, definitions: dict[str, dict[str, Any]]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    if "$ref" in fields:
        return _inlined(definitions[fields["$ref"]], definitions)
    if all(isinstance(value, str) for value in fields.get("enum", [0])):
        fields = {"type": "string", **fields}  # some clients refuse a property without a type
    if fields.get("type") == "object" and "properties" in fields:
        required = fields.get("required", [])
        properties = cast("dict[str, Any]", fields["properties"])
        ordered = sorted(properties, key=lambda name: name not in required)
        # The title would be a Python class name, which tells an agent nothing.
        fields = {key: value for key, value in fields.items() if key != "title"}
        fields["properties"] = {name: properties[name] for name in ordered}
    return {key: _inlined(value, definitions) for key, value in fields.items()}
