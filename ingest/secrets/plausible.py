"""What a value looks like that is a secret, and not code, a path, a placeholder, a type, a word or a measure. Pure.

Functions take a value, of which the beginning is enough. A rule or a form of a label names one as its `check`, with `-`
for `_`. The words that are no secrets are in values.toml.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from functools import cache

from ingest.patterns import BuiltInPattern
from ingest.secrets.reading import load

REDACTED = "[REDACTED"
Check = Callable[[str, bool], bool]
_RE = {kind: re.compile(f"(?i){'|'.join(parts)}") for kind, parts in load("values.toml").items()}
_PLACEHOLDER_PART, _IDENTIFIER = (BuiltInPattern(_RE[kind].pattern) for kind in ("placeholder_part", "identifier"))
_LONG = 20
"""Characters from which on letters alone can be a token."""
_LONGEST_WORD = 24
_LONGEST_PLACEHOLDER = 40
_MOST_WORDS = 8
"""After so many words a value is a name; what is behind them is found by its own shape or not at all."""


def none(value: str) -> bool:
    """Return whether a value that has the shape of a secret is one, and not an example of it."""
    return not value.startswith(REDACTED) and not _PLACEHOLDER_PART.is_in(value.encode(errors="replace"))


def literal(value: str) -> bool:
    """Return whether a value, in a place where only a secret can stand, is one and no variable or placeholder."""
    return len(value) >= 3 and not _is_placeholder(value) and not value.startswith(REDACTED) and "$(" not in value


def assigned(value: str, quoted: bool) -> bool:
    """Return whether the value of a label is what a person may have chosen."""
    if len(value) < 4 or _is_no_literal(value):
        return False
    if _is_phrase(value):
        return True
    if any(map(str.isspace, value)):
        return quoted and any(map(prose, value.split()))
    if not quoted and _RE["no_password"].search(value):
        return False
    return value.isdigit() or not _is_identifier(value, digits=0)


def random(value: str, least: int = 8) -> bool:
    """Return whether a value looks made by a machine: letters and digits."""
    if len(value) < least or not _RE["letter"].search(value) or _RE["no_token"].search(value):
        return False
    if not _RE["digit"].search(value) and len(value) < _LONG:
        return False
    return not (_is_no_literal(value) or _RE["measure"].fullmatch(value) or _is_identifier(value, digits=2))


def long_random(value: str) -> bool:
    """Return the same for labels that name other things, too."""
    return random(value, least=12)


def prose(value: str) -> bool:
    """Return whether a word in a sentence is a secret: it has digits or signs that words do not have."""
    if len(value) < 4 or _is_no_literal(value) or _RE["no_password"].search(value) or _RE["measure"].fullmatch(value):
        return False
    if value.isdigit():
        return len(value) <= 8
    return _RE["sign"].search(value.rstrip("!?%*_~")) is not None and not _is_identifier(value, digits=0)


def strong(value: str) -> bool:
    """Return the same where nothing says that a secret follows."""
    return prose(value) and not value.isdigit()


def prose_password(value: str, quoted: bool) -> bool:
    """Return the same after "the password is": what stands in quotes may be a word, or some."""
    chosen = len(value) >= 4 and value.isalnum() and not _is_no_literal(value)
    return prose(value) or _is_phrase(value) or (quoted and chosen)


def argument(value: str) -> bool:
    """Return whether the value of an option is a secret."""
    name = not value.isalnum() and _is_identifier(value, digits=1) and not _is_phrase(value)
    return literal(value) and not (name or _RE["code"].match(value) or (value.isdigit() and len(value) < 6))


def no_words(value: str) -> bool:
    """Return whether what follows the first hyphen is more than words."""
    words = re.split("[-_]+", value.lower())[1:]
    return none(value) and (len(words) < 2 or not all(word.isalpha() and len(word) <= 14 for word in words))


def basic(value: str) -> bool:
    """Return whether a value is base64 of `name:password`."""
    try:
        plain = b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (Error, ValueError):
        return False
    return ":" in plain and plain.isprintable()


def _is_placeholder(value: str) -> bool:
    short = len(value) <= _LONGEST_PLACEHOLDER or value[0] in "<[{$%@*.xX"
    return (short and _RE["placeholder"].fullmatch(value) is not None) or not none(value)


def _is_no_literal(value: str) -> bool:
    return bool(_is_placeholder(value) or _RE["code"].match(value) or len(set(value)) <= 2)


def _is_phrase(value: str) -> bool:
    """Return whether words are a pass phrase: four or more that make neither a sentence nor a name, or a common one."""
    if _RE["words"].fullmatch(value):
        return not (_RE["prose"].search(value) or _RE["name_word"].search(value))
    return _RE["common"].fullmatch(value) is not None


def _is_identifier(value: str, *, digits: int) -> bool:
    """Return whether a value is a name made of words, as programs have them, with at most so many digits after one."""
    parts = [part for part in _RE["between_words"].split(value, _MOST_WORDS) if part][:_MOST_WORDS]
    long = len(parts) > 2 and (value.islower() or value.isupper())
    return bool(parts) and all(_is_word(part, max(digits, long)) for part in parts)


def _is_word(part: str, digits: int) -> bool:
    if part.isdigit():
        return len(part) <= digits**2
    if _RE["technical"].fullmatch(part):
        return True
    word = part.rstrip("0123456789")
    if len(part) - len(word) > digits or not word.isalpha():
        return False
    part = word
    if len(part) < 4 or not part.isascii():
        return True
    words = [part] if part.islower() or part.istitle() else _RE["camel"].findall(part)
    if len(part) < 2.5 * len(words):
        return False
    return all(
        len(item) < 4 or (len(item) <= _LONGEST_WORD and 6 * len(_RE["vowel"].findall(item)) >= len(item))
        for item in words
    )


def identifies(name: str, value: str) -> bool:
    """Return whether the value of such a name only tells one thing from others."""
    return _IDENTIFIER.is_in(f"{name}\0{value}".encode(errors="replace"))


def is_words(value: str) -> bool:
    """Return whether a value is nothing but small words."""
    return _RE["plain_words"].fullmatch(value) is not None


@cache
def check(name: str) -> Check:
    """Return the function that a rule names, for a value and whether it stands in quotes."""
    function = globals()[name.replace("-", "_")]
    return function if function in (assigned, prose_password) else lambda value, quoted: function(value)
