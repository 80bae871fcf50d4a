"""How patterns read a text: one byte a character, so that places are equal, whatever the script.

RE2 reads ASCII. A letter that ASCII lacks becomes a control character: one for all letters with the same base letter,
or one of a few for the letters of other scripts. Words in patterns are written the same way, so a word is found in any
script, and now and then another word with it: `is_label` tells. Signs of other scripts become those of ASCII.
"""

import codecs
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import category, name, normalize

from ingest.patterns import SecretPattern

_LATIN = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12"
_OTHER = "\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
_NO_LETTER = "\x7f"
"""What a letter becomes that no word has."""
_SIGNS = dict.fromkeys("«»„“”‟「」『』‹›《》", '"') | dict.fromkeys("‘’‚", "'") | dict.fromkeys("–—−", "-")
_SIGNS |= {"。": ".", "、": ",", "→": "=", "⇒": "=", "\u3000": " "}
_WITHOUT_ACCENTS = str.maketrans("łøđıð", "lodid")
_MACRO = re.compile(r"\{\{(\w+)\}\}")


class _Folds(dict[int, str]):
    """What each character becomes."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold(chr(code))
        return folded


_FOLDS = _Folds()


def _fold(character: str) -> str:
    if character.isascii() or character in _SIGNS:
        return _SIGNS.get(character, character)
    plain = normalize("NFKD", character.lower())
    if len(plain) == 1 and "!" <= plain <= "~":
        return plain  # full width
    if category(character)[0] not in "LM":
        return "?"
    if plain[0].isascii() or name(character, "").startswith("LATIN"):
        return _LATIN[ord(plain[0]) % len(_LATIN)]
    return _OTHER[ord(plain[0]) % len(_OTHER)] if character.lower() in _letters() else _NO_LETTER


def _folded(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return error.object[error.start : error.end].translate(_FOLDS), error.end


codecs.register_error("mnemolog.fold", _folded)


def read(text: str) -> bytes:
    """Return the text as patterns read it; without its letters where it has no label."""
    labelled = not text.isascii() and _spoken().is_in(text.encode(errors="replace"))
    return text.encode("ascii", "mnemolog.fold" if labelled else "replace")


def spelled(pattern: str) -> str:
    """Return a pattern with the words in place of `{{their name}}`, as it reads them."""
    expanded = _MACRO.sub(lambda macro: f"(?:{'|'.join(_words()[macro[1]])})", pattern)
    return pattern if expanded == pattern else spelled(expanded)


def is_label(text: str) -> bool:
    """Return whether a label in another script is one, and no other word that patterns read alike."""
    return text.isascii() or _labels().search(text) is not None


@cache
def load(file: str) -> dict[str, Any]:
    """Return what a file of data next to this module has."""
    return tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))


@cache
def _words() -> dict[str, list[str]]:
    words = load("words.toml")
    labels = {key: [form for word in items for form in _forms(word)] for key, items in words["labels"].items()}
    joins = {key: [_joined(word).translate(_FOLDS) for word in items] for key, items in words["joins"].items()}
    return labels | joins | load("grammar.toml")["parts"]


def _forms(word: str) -> list[str]:
    """Return a word as patterns read it, with its accents and without."""
    bare = "".join(mark for mark in normalize("NFKD", word.translate(_WITHOUT_ACCENTS)) if category(mark) != "Mn")
    return sorted({_joined(form).translate(_FOLDS) for form in (word, bare if bare.isascii() else word)})


def _joined(word: str) -> str:
    return word.replace(" ", r"[ _.\-]?")


@cache
def _labels() -> re.Pattern[str]:
    return re.compile("(?i)" + _any(load("words.toml")["labels"].values()))


@cache
def _spoken() -> SecretPattern:
    """Return a pattern of what RE2 would not find without folding: words, and a sign of another script after a label."""
    words = load("words.toml")
    labels, joins = words["labels"].values(), words["joins"].values()
    beyond = [[word for word in items if not word.isascii()] for items in (*labels, *joins)]
    ascii_ones = [[word for word in words["labels"][kind] if word.isascii()] for kind in ("password", "code", "token")]
    return SecretPattern(
        rf"(?i){_any(beyond[: len(labels)])}|\s(?:{_any(beyond[len(labels) :])})\s|(?:{_any(ascii_ones)})\s?[^\x00-\x7f]"
    )


def _any(lists: Iterable[list[str]]) -> str:
    return "|".join(_joined(word) for items in lists for word in items)


@cache
def _letters() -> set[str]:
    words = load("words.toml")
    return set("".join((*words["labels"]["foreign"], *words["joins"]["foreign_is"])))
