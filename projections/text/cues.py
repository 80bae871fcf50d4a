"""The kind of answer that a question asks for, and that a text can be, beyond shared words.

A text's traits are among its index terms, with a sign that no word has: so documents, feeds and snapshots have them
without a field of their own, and neither words nor static vectors match them.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from projections.vectors.columns import TermRows, hashed, places_of

Floats = NDArray[np.float64]

FIRST_PERSON = "+i"
"""Trait: it is in the first person."""
TELLS_TIME = "+when"
"""Trait: it names a date, a day or a span of time."""
TOOL_OUTPUT = "+tool"
"""Trait: a tool call with its output."""
PROMPT = "+prompt"
"""Trait: a user's request to an agent, as a hook reports it."""
USER_TURN = "+user"
"""Trait: any other turn of a user in a dialog, which may state something or ask."""
CALL = "+call"
"""Trait: a tool call or what it returned, by a client that only says so of the turn."""
RESULT = "+result"
"""Trait: of these, what a tool returned."""
ASKS = "+ask"
"""Trait: it ends with a question mark."""
NUMBER = "+num"
"""Trait: it has a number up to 999, or a year, in digits or in words."""
TRAITS = (FIRST_PERSON, TELLS_TIME, TOOL_OUTPUT, PROMPT, USER_TURN, CALL, RESULT, ASKS, NUMBER)
"""All of them: of one document at most seven, in front of its date's terms."""

TOOL_OUTPUT_WEIGHT = 0.2
"""Of the importance of tool output in the list of a time: what people and agents said comes first."""


_ASKING_TEXT = """
please can could would should you tell me know show look up find out check search explain remind remember recall hi
hey hello thank thanks want need let see again
"""
ADDS_NOTHING = frozenset([*_ASKING_TEXT.split(), "pleas", *TRAITS])
"""Index terms of a prompt that add nothing to a question."""
REPEATS_FROM = 0.5
"""Share of a question's terms, at least, of a prompt that repeats it: "Thank you!" repeats none."""
SCANNED, SCANNED_TERMS = 4_000, 600
"""Characters of a text that are searched, from its beginning, and about as many terms: longer texts are mostly tool
output."""
ONE_IN = 600
"""Characters for each word of the first person, at most: an answer of several pages says "I" now and then."""
DATE_TERMS = 3
"""At the end of a document's terms: the day, the month and the year it is about."""
BESIDE_TEXT = 4
"""Index terms of a prompt besides its text: the date's, and the trait."""
SHORTEST = 60
"""Characters that a text counts for at least."""
_END = 20
"""Characters at the end of a text that are read for its question mark."""

SELF = frozenset(
    f"{word}{end}"
    for words, ends in (
        ("me Me my My mine Mine myself Myself I", ("", *".,;:!?)")),
        ("I", ("'m", "'ve", "'d", "'ll", "\u2019m", "\u2019ve", "\u2019d", "\u2019ll")),
    )
    for word in words.split()
    for end in ends
)
_ASKS_OF_SELF = re.compile(r"\b(?:I|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself)\b")
_ASKS_ADVICE = re.compile(
    r"\b(?:how|where) (?:do|can|could|should|would) I\b|\b(?:can|could|should) I\b", re.IGNORECASE
)
"""Such a question asks how something is done, not for a statement."""
_TIME_TEXT = """
januari februari march april may june juli august septemb octob novemb decemb
monday tuesday wednesday thursday friday saturday sunday week weekend month year yesterday today tomorrow tonight ago
"""
_DATES = frozenset([*_TIME_TEXT.split(), *map(str, range(1, 32)), *map(str, range(1900, 2100))])
TIME_STEMS = frozenset([*_TIME_TEXT.split(), *map(str, range(1900, 2100))])
_NUMBER_TEXT = """
one two three four five six seven eight nine ten eleven twelv twenti thirti forti fifti hundr thousand million half
dozen
"""
NUMBERS = frozenset([*_NUMBER_TEXT.split(), *map(str, range(1_000)), *map(str, range(1900, 2100))])
_MONTHS = frozenset(_TIME_TEXT.split()[:12])
_ASKS_TIME = re.compile(
    r"\bwhen (?:did|does|do|is|was|are|were|will|has|have|had|can|could|should|would)\b|^when\b"
    r"|\b(?:what|which) (?:date|day|month|year|time)\b|\bhow (?:long|recently|many (?:days|weeks|months|years))\b",
    re.IGNORECASE,
)
_ASKS_SEVERAL = re.compile(r"\b(?:how many|in total|altogether|across)\b", re.IGNORECASE)
asks_parts = re.compile(r",[^,.?!;]{1,80}, (?:and|or) ").search
"""Returns a match for a question that lists what it asks for, "the date, the budget, and the owner": the answer is
probably spread over several documents. Only in English, which has a comma before the last of three."""
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|often|old|big|large|far|fast)\b"
    r"|\bwhat (?:number|size|limit|port|version|percentage|amount|price|cost|value|budget|timeout|rate)\b",
    re.IGNORECASE,
)
_ASKS_PAST = re.compile(
    r"\b(?:before|used to|originally|initially|at first|formerly|previously|first)\b", re.IGNORECASE
)
_ASKS_NOW = re.compile(
    r"\b(?:now|current|currently|latest|today|still|most recent|recently|newest|these days|last)\b", re.IGNORECASE
)
_PRESENT = re.compile(r"\b(?:is|are|do|does|has|have|can|must|should)\b", re.IGNORECASE)
_NOT_PRESENT = re.compile(r"\b(?:was|were|did|had|when|why)\b", re.IGNORECASE)
_QUESTION_WORD = re.compile(
    r"\s*(?:what|which|who|whom|whose|where|when|why|how|is|are|was|were|did|do|does|can|could|has|have|had|will|would"
    r"|should)\b",
    re.IGNORECASE,
)
_QUESTION_MARKS = ("?", "\uff1f")


_EXACT = re.compile(
    r"`[^`]+`|\"[^\"]+\"|'[^'\s]+'"  # quoted
    r"|\w-*/\w|\w\.[a-z]{1,5}\b(?<!e\.g)(?<!i\.e)|\w_\w|\w::\w|\w\(|[a-z0-9][A-Z]|(?<!\w)--?[a-z]"
    r"|\b(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{4,}\b"
    r"|\bwhere (?:is|are|was|were|do|does|did) .*\b(?:used|defined|called|set|declared|implemented|configured)\b"
    # what tools do
    r"|\b(?:files?|commands?|output|diff|trace(?:back)?|grep|log|tests?) (?:was|were|did|do|does|is|are|of|has|have)\b"
)
"""A file, a name in code, a flag, a quotation, an id or a hash, or what a tool did."""


class Cues(NamedTuple):
    """What a question wants, as far as its function words show."""

    first_person: bool = False
    """It is about the user: what they said about themselves answers it, rather than what they were told."""
    time: bool = False
    """It asks when, or for how long."""
    exact: bool = False
    """It names something in code, asks what a tool did, or is a word or two."""
    several: bool = False
    """It counts, so its answer is probably spread over several sessions."""
    number: bool = False
    """It asks for a number."""
    past: bool = False
    """It asks what was so before."""
    now: bool = False
    """It asks for the newest."""
    present: bool = False
    """It asks what is so, in the present tense, and not why or since when."""
    question_word: bool = False
    """It begins with one."""
    question_mark: bool = False
    """It ends with one."""


NO_CUES = Cues()


@lru_cache(maxsize=256)  # a recall asks twice
def cues_of(question: str) -> Cues:
    """The cues of a question, by its English words; none in another language."""
    past = _ASKS_PAST.search(question) is not None
    return Cues(
        first_person=_ASKS_OF_SELF.search(_ASKS_ADVICE.sub("", question)) is not None,
        time=_ASKS_TIME.search(question) is not None,
        exact=is_lookup(question) or _EXACT.search(question) is not None,
        several=_ASKS_SEVERAL.search(question) is not None,
        number=_ASKS_NUMBER.search(question) is not None,
        past=past,
        now=_ASKS_NOW.search(question) is not None,
        present=_PRESENT.search(question) is not None and not (_NOT_PRESENT.search(question) or past),
        question_word=_QUESTION_WORD.match(question) is not None,
        question_mark=question.rstrip().endswith(_QUESTION_MARKS),
    )


def is_lookup(question: str) -> bool:
    """Whether it is a word or two, which ask nothing: whatever says them is a result, even a prompt."""
    return len(question.split()) <= 2


def traits(text: str, said: Sequence[str]) -> list[str]:
    """The traits of a text whose terms are `said`, as index terms."""
    # not a regular expression, which took ten times as long
    asks = text[-_END:].rstrip().endswith(_QUESTION_MARKS)
    text, present_terms = text[:SCANNED], said[:SCANNED_TERMS]
    selves = sum(map(SELF.__contains__, text.split()))
    has = {
        FIRST_PERSON: ONE_IN * selves > max(SHORTEST, len(text)),
        TELLS_TIME: not TIME_STEMS.isdisjoint(present_terms),
        ASKS: asks,
        NUMBER: not NUMBERS.isdisjoint(present_terms),
    }
    return [trait for trait, present in has.items() if present]


def months(terms: Sequence[str]) -> list[str]:
    """The months among the terms of a question."""
    return [term for term in terms if term in _MONTHS]


def says_only(terms: Collection[str], documents: TermRows) -> NDArray[np.bool_]:
    """(n,), which of the documents are prompts that repeat the question and add no word to it: they do not answer it.

    `terms` are the question's distinct terms. A prompt that says anything else may state a fact.
    """
    repeats = (documents.counts(list(terms)) > 0).sum(axis=1) >= REPEATS_FROM * len(terms)
    if not repeats.any():  # the usual case
        return repeats
    dates = _DATES if not TIME_STEMS.isdisjoint(terms) else ()  # of "yesterday", a document has the date
    values = np.unique(hashed(term.encode() for term in {*terms, *ADDS_NOTHING, *dates}))
    adds_nothing = places_of(documents.hashes, values) >= 0
    ends = np.cumsum(documents.lengths)
    places = np.arange(len(adds_nothing)) - np.repeat(ends, documents.lengths)
    adds_nothing |= places >= -DATE_TERMS
    new = np.bincount(np.repeat(np.arange(len(documents)), documents.lengths), ~adds_nothing, len(documents))
    return (new == 0) & repeats & documents.counts([PROMPT, USER_TURN]).any(axis=1)


def having(documents: TermRows, *traits: str) -> Floats:
    """(n, traits), 1 for each document that has the trait; (n,) of one trait."""
    ends = documents.endings(DATE_TERMS + len(TRAITS))
    columns = [(ends == value).any(axis=1) for value in hashed(trait.encode() for trait in traits)]
    return np.stack(columns, axis=1).astype(np.float64) if len(columns) > 1 else columns[0].astype(np.float64)
