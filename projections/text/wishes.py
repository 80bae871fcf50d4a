"""What users want every time, from their prompts; and how a later wish stands to an earlier one. Pure."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from projections.text.sentences import each_headed, term_set
from projections.text.turns import without_paste
from projections.text.words_of_languages import tables

_WORDS = tables("wish_words.toml")
_STANDING, _WISHED, _ONCE = _WORDS["standing"], _WORDS["wished"], _WORDS["once"]
PROMPT_CHARS = 400
"""A longer prompt describes a task, in which "must" and "never" are the task's."""
WISH_CHARS = 200
_FEWEST_TERMS = 2
SAME_SUBJECT = 0.5
"""Share of the shorter wish's terms, without values, from which two wishes are about the same."""
_LEAD_IN = re.compile(r"\A(?:(?:and|but|also|so|ok(?:ay)?|yes|please|y|und|et)\b[\s,]*)+(?=\S)", re.IGNORECASE)
_CLAUSE_GAP = re.compile(r"[,;:] |\s[-–—] ")
_AGAINST = re.compile(
    r"\b(?:not|never|no(?: longer)?|don.t|instead of|rather than|over|without|nicht|nie|kein\w*|statt|nunca|jam[aá]i?s"
    r"|pas|non|não|вместо|не|никогда)\b([^,.;:]*)|(?:不要|别|而不是|不)([^，。]*)",
    re.IGNORECASE,
)
"""What a wish says not to do, or not to use."""
_OF_ANY = term_set(
    "always never please from now on again here too only every each use used keep want need time well said going out"
)
"""Terms that say nothing of the subject."""
_VALUES = term_set(
    "monday tuesday wednesday thursday friday saturday sunday english german spanish french italian portuguese russian"
    " chinese japanese korean"
)
"""Terms that, like numbers, another wish about the same replaces by another."""
Relation: TypeAlias = Literal["repeats", "replaces", ""]


class Wish(NamedTuple):
    """A sentence of a prompt; `is_standing`: its speaker says that it holds from now on."""

    text: str
    is_standing: bool


def wishes_of(prompt: str) -> Iterator[Wish]:
    """Yields the sentences of a prompt that say how the user wants something done, and not only in this task."""
    prompt = without_paste(prompt)
    if len(prompt) > PROMPT_CHARS or prompt.startswith("/"):
        return
    for _, stated in each_headed(prompt, PROMPT_CHARS, chars=PROMPT_CHARS):
        sentence = _LEAD_IN.sub("", stated)
        if len(sentence) > WISH_CHARS or sentence.endswith(("?", "？")) or len(term_set(sentence)) < _FEWEST_TERMS:
            continue
        is_standing = _STANDING.are_in(sentence)
        if (is_standing or _WISHED.are_in(sentence)) and not _ONCE.are_in(sentence):
            yield Wish(sentence, is_standing)


def relation(new: str, old: str) -> Relation:
    """Returns whether a later wish repeats an earlier one, or replaces it with another value or its opposite; empty if
    they are about different subjects."""
    later, earlier = _subject(new[:PROMPT_CHARS]), _subject(old[:PROMPT_CHARS])  # a rule may be a page
    shared = len(later.terms & earlier.terms)
    least = min(len(later.terms), len(earlier.terms))
    if not shared or shared < SAME_SUBJECT * least or (shared == 1 and not (later.values and earlier.values)):
        return ""
    differs = bool(later.values and earlier.values) and later.values != earlier.values
    opposed = later.desired & earlier.refused or earlier.desired & later.refused
    opposed = opposed and not later.refused & earlier.refused
    return "replaces" if differs or opposed else "repeats"


def refused(text: str) -> frozenset[str]:
    """Returns the terms of what a text says not to do, or not to use."""
    return _subject(text[:PROMPT_CHARS]).refused


class _Subject(NamedTuple):
    terms: frozenset[str]
    values: frozenset[str]
    desired: frozenset[str]
    refused: frozenset[str]


def _is_wish(clause: str) -> bool:
    return bool(_AGAINST.match(clause)) or _STANDING.are_in(clause) or _WISHED.are_in(clause)


@lru_cache(maxsize=4_096)
def _subject(text: str) -> _Subject:
    """What a wish is about: its terms, without the clauses at its end that only explain."""
    clauses = _CLAUSE_GAP.split(text)
    while len(clauses) > 1 and not _is_wish(clauses[-1]):
        clauses.pop()
    about = ", ".join(clauses)
    refused = term_set(" ".join(match[1] or match[2] or "" for match in _AGAINST.finditer(about))) - _OF_ANY
    terms = term_set(about) - _OF_ANY
    values = frozenset(term for term in terms if term in _VALUES or term[0].isdigit())
    desired = term_set(_AGAINST.sub(" ", about)) - _OF_ANY
    return _Subject(terms - values, values, desired - refused - values, refused - desired - values)
