"""JSON Schemas of requests to agentmemory's endpoints. Answers have none: agentmemory itself describes none."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

Shape: TypeAlias = Mapping[str, Any]

TEXT: Shape = {"type": "string"}
NUMBER: Shape = {"type": "number"}
BOOLEAN: Shape = {"type": "boolean"}
OBJECT: Shape = {"type": "object"}
NAMES: Shape = {"type": ["array", "string"], "items": TEXT}
"""A list; a text with commas is taken for one."""
ANYTHING: Shape = {}


def otherwise(schema: Shape, default: Any) -> Shape:
    """The schema of a value that is `default` when it is not given."""
    return {**schema, "default": default}


def fields(properties: Mapping[Any, Shape], required: Collection[str] = ()) -> Shape:
    """The schema of a body or a query string with these properties, which are read leniently."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def texts(*names: str) -> dict[str, Shape]:
    """The schemas of properties that are texts."""
    return dict.fromkeys(names, TEXT)


FAULT: Shape = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
