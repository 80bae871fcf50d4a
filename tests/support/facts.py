"""Facts that differ in one number, name, unit or negation, and restatements, in five languages. The same every time."""

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_DATA: Any = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
FRAMES, WORDS, NOT, TAKES, PLURALS = (_DATA[name] for name in ("frames", "words", "not", "takes", "plurals"))


class Pair(NamedTuple):
    """Two texts, their language, and how they differ."""

    language: str
    how: str
    one: str
    other: str


def distinct_pairs(count: int = 500) -> Iterator[Pair]:
    """Pairs of facts of which both may be true, or only one; each differs in one thing."""
    draw = random.Random(4711)
    for number in range(count):
        language = list(FRAMES)[number % 5]
        how = ("number", "name", "unit", "negation")[number // 5 % 4]
        frame, words = draw.choice(FRAMES[language]), _words(language, draw)
        other = dict(words)
        if how == "number":
            other["number"] = str(int(words["number"]) + draw.choice([1, 10, 100]))
        elif how != "negation":
            other[how] = draw.choice([first for first in WORDS[language][how] if first != words[how]])
        first, two = frame.format(**words), frame.format(**other)
        if how == "negation":
            fields, denied = NOT[language] if NOT[language][0] in first else TAKES[language]
            two = first.replace(fields, denied, 1)
        assert first != two, (first, how)
        yield Pair(language, how, first, two)


def restatements(count: int = 200) -> Iterator[Pair]:
    """Pairs that state the same: one differs in case, punctuation, spacing, articles or the form of a word."""
    draw = random.Random(815)
    kinds = {"case": _case, "punctuation": _punctuation, "spacing": _spacing, "articles": _articles, "forms": _forms}
    for number in range(count):
        language = list(FRAMES)[number % 5]
        how = list(kinds)[number // 5 % 5]
        item = draw.choice(FRAMES[language]).format(**_words(language, draw))
        other = kinds[how](item, language)
        yield Pair(language, how, item, other if other != item else f"  {item}. ")


def _words(language: str, draw: random.Random) -> dict[str, str]:
    words = {name: draw.choice(choices) for name, choices in WORDS[language].items()}
    return {**words, "number": str(draw.randrange(2, 9_000))}


def _case(text: str, language: str) -> str:
    return text.upper()


def _punctuation(text: str, language: str) -> str:
    return f"“{text}”!"


def _spacing(text: str, language: str) -> str:
    return text.replace(" ", "  ") + "\n" if " " in text else " ".join(text[:4]) + text[4:]


def _articles(text: str, language: str) -> str:
    for article in ("the ", "The ", "la ", "el ", "le ", "die ", "der ", "dem ", "的"):
        text = text.replace(article, "", 1) if article in text else text
    return text


def _forms(text: str, language: str) -> str:
    for form, another in PLURALS[language]:
        if form in text:
            return text.replace(form, another, 1)
    return text
