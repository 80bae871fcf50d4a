"""Edits a TOML text: adds and removes tables, and leaves everything else unchanged."""

import tomllib
from collections.abc import Mapping
from typing import Any, TypeGuard

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from api.agents.json_text import Unreadable


def parse(text: str) -> dict[str, Any]:
    """The value; raises Unreadable with line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(str(error)) from None


def rewrite(text: str, value: dict[str, Any]) -> str:
    """The text with the new value. Raises Unreadable."""
    if parse(text) == value:
        return text
    try:
        document = tomlkit.parse(text)
        _change(document, parse(text), value)
        new = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]
        if parse(new) == value:
            return new
    except TOMLKitError as error:
        raise Unreadable(str(error)) from None
    raise Unreadable("its form cannot be edited here; edit it by hand")


def _change(table: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for key in old.keys() - new.keys():
        del table[key]
    for key, value in new.items():
        if key in old and _is_table(old[key]) and _is_table(value):
            _change(table[key], old[key], value)
        elif key not in old or old[key] != value:
            table[key] = _item(value, inline=isinstance(table, InlineTable))


def _item(value: Any, *, inline: bool) -> Any:
    """A value as TOML: tables get a heading, unless they only contain tables, or are inline."""
    if not _is_table(value):
        return value
    table: Any = tomlkit.table(is_super_table=all(map(_is_table, value.values())))
    if inline:
        table = tomlkit.inline_table()
    for key, item in value.items():
        table[key] = _item(item, inline=inline)
    return table


def _is_table(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)
