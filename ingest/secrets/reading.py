"""How patterns read a text: one byte a character, so that places are equal, whatever the script.

RE2 reads ASCII. A letter that ASCII lacks becomes a control character: one for all letters with the same base letter,
or one of a few for the letters of other scripts. Words in patterns are written the same way, so a word is found in any
script, and now and then another word with it: `is_label` tells. Signs of other scripts become those of ASCII.
"""

import codecs
import re
from functools import cache
from typing import Any
from unicodedata import category, name, normalize

from ingest.patterns import BuiltInPattern
from ingest.platform.files import toml_beside

_LATIN = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12"
_OTHER = "\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
_NO_LETTER = "\x7f"
"""What a letter becomes that no word has."""
_FEW = 64
"""Bytes of other scripts that are folded faster than looked for."""
_MACRO = re.compile(r"\{\{(\w+)\}\}")


class _Folds(dict[int, str]):
    """What each character becomes."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold(chr(code))
        return folded


_FOLDS = _Folds()


def _fold(character: str) -> str:
    if character.isascii():
        return character
    for sign, others in load("words.toml")["signs"].items():
        if character in others:
            return sign
    plain = normalize("NFKD", character.lower())
    if len(plain) == 1 and "!" <= plain <= "~":
        return plain  # full width
    if category(character)[0] not in "LM":
        return "?"
    if plain[0].isascii() or name(character, "").startswith("LATIN"):
        return _LATIN[ord(plain[0]) % len(_LATIN)]
    return _OTHER[ord(plain[0]) % len(_OTHER)] if character.lower() in letters() else _NO_LETTER


def _folded(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return error.object[error.start : error.end].translate(_FOLDS), error.end


codecs.register_error("mnemolog.fold", _folded)


def read(text: str) -> bytes:
    """Return the text as patterns read it; without the letters of other scripts where it has no label."""
    if text.isascii():
        return text.encode()
    encoded = text.encode(errors="replace")
    folding = len(encoded) - len(text) < _FEW or _spoken().is_in(encoded)
    return text.encode("ascii", "mnemolog.fold" if folding else "replace")


def spelled(pattern: str) -> str:
    """Return a pattern with the words in place of `{{their name}}`, as it reads them."""
    expanded = _MACRO.sub(lambda macro: f"(?:{'|'.join(_words()[macro[1]])})", pattern)
    return pattern if expanded == pattern else spelled(expanded)


def is_label(text: str) -> bool:
    """Return whether a label in another script is one, and no other word that patterns read alike."""
    return text.isascii() or _spoken().is_in(text.encode(errors="replace"))


@cache
def load(file: str) -> dict[str, Any]:
    """Return what a file of data next to this module has."""
    return toml_beside(__file__, file)


@cache
def _words() -> dict[str, list[str]]:
    words = load("words.toml")
    labels = {key: [form for word in items for form in spellings(word)] for key, items in words["labels"].items()}
    joins = {key: [_joined(word).translate(_FOLDS) for word in items] for key, items in words["joins"].items()}
    return labels | joins | load("grammar.toml")["parts"]


def spellings(word: str) -> list[str]:
    """Return a word as patterns read it, with its accents and without."""
    bare = normalize("NFKD", word.replace("ł", "l").replace("ı", "i")).encode("ascii", "ignore").decode()
    words = (word, bare) if len(bare) == len(word) else (word,)
    return [_joined(form).translate(_FOLDS) for form in words]


def _joined(word: str) -> str:
    return word.replace(" ", r"[ _.\-]?")


@cache
def _spoken() -> BuiltInPattern:
    """Return a pattern of labels that ASCII cannot spell, and of labels beside what it cannot."""
    labels = load("words.toml")["labels"]
    words = [_joined(word) for kind in labels if kind != "named" for word in labels[kind]]
    beyond = "|".join(word for word in words if not word.isascii())
    return BuiltInPattern(rf"(?i){beyond}|(?:{'|'.join(words)})\s?[^\x00-\x7f]")


@cache
def letters() -> set[str]:
    words = load("words.toml")
    return set("".join((*words["labels"]["foreign"], *words["joins"]["foreign_is"])))
