"""Lists in one text field: a row is a Redis hash, and a hash holds text."""

from collections.abc import Iterable

SEPARATOR = "\x1f"


def joined(values: Iterable[str]) -> str:
    """The values in one text; a value's own U+001F becomes a space."""
    return SEPARATOR.join(value.replace(SEPARATOR, " ") for value in values)


def split(text: str) -> list[str]:
    """The values that `joined` put together."""
    return text.split(SEPARATOR) if text else []
