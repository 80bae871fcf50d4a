"""Statements that announce a change, and questions about the past, by their words in ten languages. Pure.

The words are data: `change_words.toml`.
"""

import re
import tomllib
from pathlib import Path

from ingest.patterns import BuiltInPattern

_TABLES: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("change_words.toml").read_text("utf-8")
)
_UNSPACED = ("zh", "ja", "ko")
"""Languages whose words do not begin after a space, or whose endings are glued to the word before."""


class _Words:
    """The expressions of a table. Matched in lower-case text, in which they take a third of the time."""

    def __init__(self, table: dict[str, list[str]]) -> None:
        spaced = [word for language, words in table.items() if language not in _UNSPACED for word in words]
        unspaced = [word for language in _UNSPACED for word in table[language]]
        self.spaced = rf"\b(?:{'|'.join(spaced)})"
        self._spaced, self._unspaced = re.compile(self.spaced), re.compile("|".join(unspaced))

    def are_in(self, text: str) -> bool:
        """Whether a text has any of them."""
        text = text.lower()
        if self._spaced.search(text):
            return True
        return not text.isascii() and self._unspaced.search(text) is not None


_ANNOUNCES, _PAST = _Words(_TABLES["announces"]), _Words(_TABLES["past"])
_ANNOUNCES_IN_ASCII = BuiltInPattern(_ANNOUNCES.spaced)
"""In ASCII, RE2 takes a sixth of the time; its `\\b` and `\\w` know no other letters."""


def announces(text: str) -> bool:
    """Whether a text says that something is different now: "from today", "instead of", "改为"."""
    return _ANNOUNCES_IN_ASCII.is_in(text.lower().encode()) if text.isascii() else _ANNOUNCES.are_in(text)


def asks_past(question: str) -> bool:
    """Whether a question is about an earlier state, a time or a reason, rather than about what is so now."""
    return _PAST.are_in(question)
