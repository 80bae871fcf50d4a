"""What a decoder says of a value, in words for people. The server's are worded here, too."""

import re
from collections.abc import Mapping

_VALUES = {
    r"Object missing required field .*": "is missing",
    r"Invalid enum value (.*)": r"cannot be \1",
    r"Invalid RFC3339 encoded datetime": "must be a time such as 2026-01-31T12:00:00Z",
    r"Expected `(?:str|array)` of length >= 1": "must not be empty",
    r"Expected `str` of length <= (.*)": r"may have at most \1 characters",
    r"Expected `array` of length <= (.*)": r"may have at most \1 values",
    r"Expected `str` matching regex (.*)": r"must match \1",
    r"Expected `(?:int|float)` >= (.*)": r"must be at least \1",
    r"Expected `(?:int|float)` > (.*)": r"must be more than \1",
    r"Expected `(?:int|float)` <= (.*)": r"must be at most \1",
    r"Expected `(?:int|float)` < (.*)": r"must be less than \1",
    r"Expected `int.*": "must be a whole number",
    r"Expected `float.*": "must be a number",
    r"Expected `bool.*": "must be true or false",
}
_TYPES = {
    r"Expected `datetime` with a timezone component": "must be a time with a time zone",
    r"Expected `str.*": "must be text",
    r"Expected `array.*": "must be a list",
    r"Expected `object.*": "must be an object",
}
"""Types that only a program gets wrong."""
_AT = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"required field `(.*?)`")


def plain(message: str, patterns: Mapping[str, str] = _VALUES) -> str | None:
    """What a decoder's message says of a value; None for another message."""
    found = ((re.fullmatch(pattern, message), words) for pattern, words in patterns.items())
    return next((match.expand(words) for match, words in found if match), None)


def worded(message: str, field: str | None) -> str:
    """The message about a field; as it is, if it is no decoder's."""
    words = plain(message) or plain(message, _TYPES)
    return f"{field or 'the value'} {words}" if words else message


def unreadable(fault: Exception) -> str:
    """Why an answer cannot be read."""
    text = str(fault)
    at = _AT.search(text)
    message = text[: at.start()] if at else text
    names = [at[1] if at else "", missing[1] if (missing := _MISSING.search(message)) else ""]
    return worded(message, ".".join(filter(None, names)) or None)
