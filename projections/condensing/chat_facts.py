"""Which sentences of a chat state a fact: who did what, when, or plans to. Pure.

A sentence counts by its words, without those of feelings, praise and encouragement; who it speaks of, whether something
happened or is planned, names, times and numbers. Words of other languages than English count as words.
"""

import re

from ingest.platform.files import toml_beside
from projections.text.cues import NUMBERS, TIME_STEMS
from projections.text.sentences import is_courtesy
from projections.text.terms import STOP_WORDS, terms
from projections.text.words_of_languages import LanguageWords

_RULES = toml_beside(__file__, "chat_words.toml")
CHAT_WEIGHTS: dict[str, float] = _RULES["weights"]
FEELINGS = {form for word in STOP_WORDS for form in (word, f"={word}")}.union(terms(_RULES["feelings"]))
"""Terms of feelings, praise, encouragement and talk about talking; and those that a text has for lack of others."""
_SIGNS = {name: LanguageWords(table) for name, table in _RULES["signs"].items()}
_ADDRESS = re.compile(_RULES["address"])
_ASIDE = re.compile(r" ?\[[^\[\]]*\]\Z")
"""What a client writes of a picture."""
_NAME = re.compile(r"(?<=[a-z,;'’\d] )[A-Z]\w+|\"\w")
MOST_TERMS, MOST_NAMES = 8, 2
"""Of a sentence, that count."""


def without_address(text: str) -> str:
    """Returns a sentence without the greeting, thanks or interjection before it, and without a note after it."""
    address = _ADDRESS.match(text)
    rest = _ASIDE.sub("", text[address.end() :] if address else text)
    return rest[:1].upper() + rest[1:]


def chat_features(text: str, words: frozenset[str], speakers: frozenset[str]) -> dict[str, float]:
    """Returns the features of a sentence, given its terms and those of the speakers' names."""
    feelings = words & FEELINGS
    signs = {name: float(sign.are_in(text)) for name, sign in _SIGNS.items()}
    return {
        "chat": 1.0,
        "substance": min(len(words - feelings - speakers), MOST_TERMS) / MOST_TERMS,
        "feeling": len(feelings) / max(1, len(words)),
        "name": float(min(sum(speakers.isdisjoint(terms(name)) for name in _NAME.findall(text)), MOST_NAMES)),
        "time": float(not words.isdisjoint(TIME_STEMS)),
        "number": float(not words.isdisjoint(NUMBERS)),
        "question": float(text.endswith(("?", "？"))),
        **signs,
        "reaction": max(signs["reaction"], is_courtesy(text)),
    }
