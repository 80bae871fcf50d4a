"""Words of ten languages that say something of a sentence, from tables of regular expressions (TOML). Pure."""

import re
import tomllib
from pathlib import Path

_UNSPACED = ("zh", "ja", "ko")
"""Languages whose words do not begin after a space, or whose endings are glued to the word before."""


class LanguageWords:
    """The expressions of a table, by language. Matched in lower-case text, in which they take a third of the time."""

    def __init__(self, table: dict[str, list[str]]) -> None:
        spaced = [word for language, words in table.items() if language not in _UNSPACED for word in words]
        unspaced = [word for language in _UNSPACED for word in table.get(language, [])]
        self.spaced = rf"\b(?:{'|'.join(spaced)})"
        self._spaced, self._unspaced = re.compile(self.spaced), re.compile("|".join(unspaced))

    def are_in(self, text: str) -> bool:
        """Returns whether a text has any of them."""
        text = text.lower()
        if self._spaced.search(text):
            return True
        return not text.isascii() and self._unspaced.search(text) is not None

    def without(self, text: str) -> str:
        """Returns a text in lower case, without any of them."""
        return self._unspaced.sub(" ", self._spaced.sub(" ", text.lower()))


def tables(name: str) -> dict[str, LanguageWords]:
    """Returns the tables of a file in this folder."""
    read: dict[str, dict[str, list[str]]] = tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))
    return {title: LanguageWords(table) for title, table in read.items()}
