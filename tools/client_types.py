"""Writes the structs and keywords of the Python client, from the OpenAPI document: `python -m tools.client_types`.

`tools/client_types.toml` lists the modules and their classes. Words from a list that may grow are strings in answers,
so that a newer server does not break an older client, and literals in what callers write.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.openapi import native

FOLDER = Path(__file__).parents[1] / "clients/python/mnemolog_client/generated"
LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

SCHEMAS = native()["components"]["schemas"]

Schema = Mapping[str, Any]


def modules() -> dict[str, str]:
    """The source of each module, by name."""
    return {name: "".join([module["head"], *_lines(module)]) for name, module in LISTS["modules"].items()}


def _lines(module: Schema) -> Iterator[str]:
    for name, row in module["classes"].items():
        component = SCHEMAS[row.get("schema", name)]
        says = row.get("says") or component["description"]
        yield f"\n\nclass {name}({row.get('base', module['base'])}, {module['options']}):\n"
        yield f'    """{says}' + ("\n    " if "\n" in says else "") + '"""\n\n'
        for field in row.get("only", component["properties"]):
            if field not in row.get("without", ()):
                kind, default = _field(module, row, component, field)
                yield f"    {row.get('rename', {}).get(field, field)}: {kind}{default}\n"


def _field(module: Schema, row: Schema, component: Schema, field: str) -> tuple[str, str]:
    """The type and the default of a field."""
    schema = component["properties"][field]
    kind, value = _type(module, schema, field), row.get("defaults", {}).get(field)
    if value is None and "default" in schema:
        value = f"{kind}()" if "$ref" in schema else _source(schema["default"])
    if module["sent"] or (value is None and field not in component["required"]):
        value = "None"
    if value == "None" and "None" not in kind:
        kind += " | None"
    return kind, "" if value is None or module["sent"] else f" = {value}"


def _type(module: Schema, schema: Schema, field: str = "") -> str:
    """A type of Python; `field` is the name of what has it."""
    match schema:
        case {"$ref": reference} if not module["sent"]:
            return reference.rpartition("/")[2]
        case {"anyOf": several}:
            return " | ".join(_type(module, one, field) for one in several)
        case {"enum": words}:
            return f"Literal{_source(words)}" if module["sent"] else "str"
        case {"type": "array", "items": items}:
            return f"{module['array']}[{_type(module, items)}]"
        case {"type": "string"} if field in LISTS["times"] or field.endswith("_at") or "format" in schema:
            return "datetime"
        case {"type": kind} if kind in LISTS["scalars"]:
            return LISTS["scalars"][kind]
        case _:
            values = schema.get("additionalProperties")
            return f"{module['object']}[str, {_type(module, values) if values else 'Any'}]"


def _source(value: object) -> str:
    return repr(value).replace("'", '"')


if __name__ == "__main__":
    for name, source in modules().items():
        (FOLDER / f"{name}.py").write_text(source)
