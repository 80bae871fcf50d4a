"""What kind of answer a question wants, and what kind of answer a text can be, beyond the words that both say.

A text's traits are among its index terms, with a sign that no word has: so documents, feeds and snapshots have them
without a field of their own, and neither words nor static vectors match them.
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from projections.search.columns import TermRows, hashed

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

# In standard deviations of a leg, fitted by `benchmarks/fit_ranking.py` to agent work and BEAM: decision 39. Around
# them recall is flat.
SPEAKER_LIFT = 3.1
"""Gained by texts in the first person, when the question is in it."""
NAMED_SPEAKER_LIFT = 0.6
"""Gained by texts in the first person whose author the question names."""
TIME_LIFT = 2.9
"""Gained by texts that name a time, when the question asks for one."""
SPREAD, SPREAD_OVER = 0.13, 10
"""Lost for each better document of the same episode, up to so many, when the question counts."""

TOOL_OUTPUT_WEIGHT = 0.2
"""Of the relevance of tool output, when the question asks for a statement: it repeats the same words."""

ECHO_FROM, ECHO_WEIGHT = 0.5, 0.5
"""Share of a prompt's terms that a question says, from which it is the same question again; and the weight of such a
prompt: it is nearest to the question, and does not answer it."""

_ASKING_TEXT = """
please can could would should you tell me know show look up find out check search explain remind remember recall hi
hey hello thank thanks want need let see again
"""
ADDS_NOTHING = frozenset([*_ASKING_TEXT.split(), "pleas", FIRST_PERSON, TELLS_TIME, PROMPT, USER_TURN])
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

_SELF = frozenset(
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
_TIME_STEMS = frozenset([*_TIME_TEXT.split(), *map(str, range(1900, 2100))])
_ASKS_TIME = re.compile(
    r"\bwhen (?:did|does|do|is|was|are|were|will|has|have|had|can|could|should|would)\b|^when\b"
    r"|\b(?:what|which) (?:date|day|month|year|time)\b|\bhow (?:long|recently|many (?:days|weeks|months|years))\b",
    re.IGNORECASE,
)
_ASKS_SEVERAL = re.compile(r"\b(?:how many|in total|altogether|across)\b", re.IGNORECASE)


_EXACT = re.compile(
    r"`[^`]+`|\"[^\"]+\"|'[^'\s]+'"  # quoted
    r"|\w[\w-]*/\w|\w\.[a-z]{1,5}\b(?<!e\.g)(?<!i\.e)|\w_\w|\w::\w|\w\(|[a-z0-9][A-Z]|(?<!\w)--?[a-z]"
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


NO_CUES = Cues()


def cues_of(question: str) -> Cues:
    """The cues of a question, by its English words; none in another language."""
    return Cues(
        first_person=_ASKS_OF_SELF.search(_ASKS_ADVICE.sub("", question)) is not None,
        time=_ASKS_TIME.search(question) is not None,
        exact=is_lookup(question) or _EXACT.search(question) is not None,
        several=_ASKS_SEVERAL.search(question) is not None,
    )


def is_lookup(question: str) -> bool:
    """Whether it is a word or two, which ask nothing: whatever says them is a result, even a prompt."""
    return len(question.split()) <= 2


def traits(text: str, said: Sequence[str]) -> list[str]:
    """The traits of a text whose terms are `said`, as index terms."""
    # not a regular expression, which took ten times as long
    text = text[:SCANNED]
    selves = sum(map(_SELF.__contains__, text.split()))
    present = [FIRST_PERSON] if ONE_IN * selves > max(SHORTEST, len(text)) else []
    return present if _TIME_STEMS.isdisjoint(said[:SCANNED_TERMS]) else [*present, TELLS_TIME]


def speaker_lift(cues: Cues, documents: TermRows, named: Floats) -> Floats:
    """(n,), for texts in the first person: of the user, or of an author whom the question names.

    `named` is the share of each author's name that the question says.
    """
    lift = SPEAKER_LIFT * cues.first_person + NAMED_SPEAKER_LIFT * named
    return lift * having(documents, FIRST_PERSON) if lift.any() else lift


def time_lift(cues: Cues, documents: TermRows) -> Floats:
    """(n,), TIME_LIFT for texts that name a time, when the question asks for one."""
    return TIME_LIFT * (having(documents, TELLS_TIME) if cues.time else np.zeros(len(documents)))


def tool_weight(cues: Cues, documents: TermRows) -> Floats:
    """(n,), TOOL_OUTPUT_WEIGHT for tool output unless the question is exact, 1 for all else."""
    return np.where(having(documents, TOOL_OUTPUT) * (not cues.exact), TOOL_OUTPUT_WEIGHT, 1.0)


def echo_weight(cues: Cues, said: Floats, documents: TermRows) -> Floats:
    """(n,), ECHO_WEIGHT for prompts that say little more than the question, unless it is exact; 1 for all else.

    `said` (n, terms) is how often each document says each term of the question.
    """
    echoes = having(documents, PROMPT) * (said.sum(axis=1) >= ECHO_FROM * (documents.lengths - BESIDE_TEXT))
    echoes = echoes * (not cues.exact)
    return np.where(echoes, ECHO_WEIGHT, 1.0)


def says_only(terms: Collection[str], documents: TermRows) -> NDArray[np.bool_]:
    """(n,), which of the documents are prompts that repeat the question and add no word to it: they do not answer it.

    `terms` are the question's distinct terms. A prompt that says anything else may state a fact.
    """
    dates = _DATES if not _TIME_STEMS.isdisjoint(terms) else ()  # of "yesterday", a document has the date
    adds_nothing = np.isin(documents.hashes, hashed(term.encode() for term in {*terms, *ADDS_NOTHING, *dates}))
    ends = np.cumsum(documents.lengths)
    places = np.arange(len(adds_nothing)) - np.repeat(ends, documents.lengths)
    adds_nothing |= places >= -DATE_TERMS
    new = np.bincount(np.repeat(np.arange(len(documents)), documents.lengths), ~adds_nothing, len(documents))
    repeats = (documents.counts(list(terms)) > 0).sum(axis=1) >= REPEATS_FROM * len(terms)
    return (new == 0) & repeats & documents.counts([PROMPT, USER_TURN]).any(axis=1)


def spread(cues: Cues, scores: Floats, episode: NDArray[np.int32]) -> Floats:
    """(n,), minus SPREAD for each better document of the same episode, when the question counts."""
    lost = np.zeros(len(scores))
    if not cues.several or not len(scores):
        return lost
    order = np.lexsort((-scores, episode))
    starts = np.flatnonzero(np.diff(episode[order], prepend=episode[order[0]] - 1))
    better = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    lost[order] = -SPREAD * np.minimum(better, SPREAD_OVER)
    return np.where(episode >= 0, lost, 0.0)


def having(documents: TermRows, trait: str) -> Floats:
    """(n,), 1 for each document that has the trait."""
    return np.minimum(documents.counts([trait])[:, 0], 1.0)
