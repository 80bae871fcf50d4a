"""Statements that announce a change, and questions about the past, by their words in ten languages. Pure.

The words are data: `change_words.toml`.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

_TABLES: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("change_words.toml").read_text("utf-8")
)
_UNSPACED = ("zh", "ja", "ko")
"""Languages whose words do not begin after a space, or whose endings are glued to the word before."""


def _any_of(table: dict[str, list[str]]) -> re.Pattern[str]:
    def patterns() -> Iterable[str]:
        for language, words in table.items():
            start = "" if language in _UNSPACED else r"\b"
            yield from (f"{start}(?:{word})" for word in words)

    return re.compile("|".join(patterns()), re.IGNORECASE)


_ANNOUNCES, _PAST = _any_of(_TABLES["announces"]), _any_of(_TABLES["past"])


def announces(text: str) -> bool:
    """Whether a text says that something is different now: "from today", "instead of", "改为"."""
    return _ANNOUNCES.search(text) is not None


def asks_past(question: str) -> bool:
    """Whether a question is about an earlier state, a time or a reason, rather than about what is so now."""
    return _PAST.search(question) is not None
