"""Which commands are decided in a thread, so that they do not block the event loop."""

from functools import cache
from typing import Any, cast

import msgspec

from ingest.commands.decide import (
    AnyCommand,
)

BIG_CHARS = 64 << 10
BIG_VALUES = 2_000
"""A larger command is decided in a thread, because scanning it for secrets takes longer than a slice."""


@cache
def _unbounded(cls: type[AnyCommand]) -> tuple[str, ...]:
    """The fields of a command whose length the type does not limit."""
    fields = msgspec.inspect.type_info(cls)
    assert isinstance(fields, msgspec.inspect.StructType)
    return tuple(field.name for field in fields.fields if _is_unbounded(field.type))


def _is_unbounded(kind: msgspec.inspect.Type) -> bool:
    match kind:
        case msgspec.inspect.StrType(max_length=None, pattern=None) | msgspec.inspect.DictType():
            return True
        case msgspec.inspect.UnionType(types=types):
            return any(map(_is_unbounded, types))
        case _:
            return False


def is_big(command: AnyCommand) -> bool:
    """Whether deciding takes long enough to be done elsewhere; looks no further than it must."""
    chars = values = 0
    pending: list[Any] = []
    for field in _unbounded(type(command)):
        value: Any = getattr(command, field)
        if isinstance(value, str):
            chars += len(value)
        elif value:
            pending.append(value)
    while pending and values <= BIG_VALUES and chars <= BIG_CHARS:
        value = pending.pop()
        if isinstance(value, dict):
            value = cast("dict[Any, Any]", value).values()
        values += len(value)
        if values <= BIG_VALUES:
            chars += sum(len(part) for part in value if isinstance(part, str))
            pending += [part for part in value if isinstance(part, dict | list)]
    return values > BIG_VALUES or chars > BIG_CHARS
