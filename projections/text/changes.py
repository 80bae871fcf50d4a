"""Statements that announce a change, and questions about the past, by their words in ten languages. Pure.

The words are data: `change_words.toml`.
"""

from ingest.patterns import BuiltInPattern
from projections.text.words_of_languages import tables

_WORDS = tables("change_words.toml")
_ANNOUNCES, _PAST = _WORDS["announces"], _WORDS["past"]
_ANNOUNCES_IN_ASCII = BuiltInPattern(_ANNOUNCES.spaced)
"""In ASCII, RE2 takes a sixth of the time; its `\\b` and `\\w` know no other letters."""


def announces(text: str) -> bool:
    """Whether a text says that something is different now: "from today", "instead of", "改为"."""
    return _ANNOUNCES_IN_ASCII.is_in(text.lower().encode()) if text.isascii() else _ANNOUNCES.are_in(text)


def asks_past(question: str) -> bool:
    """Whether a question is about an earlier state, a time or a reason, rather than about what is so now."""
    return _PAST.are_in(question)
