"""What kind of answer a question wants, and what kind of answer a text can be, beyond the words that both say.

A text's traits stand among its index terms, as stop words, which no text gives otherwise: so documents, feeds and
snapshots carry them without a field of their own. An index term of a text without other words may be such a word too.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIRST_PERSON = "i"
"""Trait: somebody says something of themselves."""
TELLS_TIME = "when"
"""Trait: a date, a day or a span of time is told."""

# Recall figures below: LoCoMo, agent work and BEAM (categories with a fact to find), evidence in the first 10, each lift
# alone and in standard deviations of a leg, fitted by benchmarks/fit_ranking.py on agent work and BEAM.
SPEAKER_LIFT = 2.0
"""Gained by what was said in the first person when the question is; BEAM 66.7 to 73.4, the others have no such
questions. Twice as much is no better."""
TIME_LIFT = 1.5
"""Gained by what tells a time when the question asks for one; LoCoMo 80.8 to 81.3."""
SPREAD = 0.15
"""Lost by each document for each better one of its episode when the question counts or compares; BEAM 73.4 to 75.9."""
SPREAD_OVER = 10
"""Better documents of the episode that count at most."""

SCANNED = 4_000
"""Characters of a text that are looked at, from its beginning: what is longer is mostly output of a tool."""
ONE_IN = 600
"""Characters for each word of the first person, at most: an answer of several pages says "I" now and then."""
SHORTEST = 60
"""Characters that a text counts for at least."""

_SELF = re.compile(r"\b(?:I|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself)\b")
_TIME = re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:week|weekend|month|year)s?"
    r"|yesterday|today|tomorrow|tonight|ago|(?:19|20)\d\d(?:-\d\d-\d\d)?)\b",
    re.IGNORECASE,
)
_ASKS_TIME = re.compile(
    r"\bwhen (?:did|does|do|is|was|are|were|will|has|have|had|can|could|should|would)\b|^when\b"
    r"|\b(?:what|which) (?:date|day|month|year|time)\b|\bhow (?:long|recently|many (?:days|weeks|months|years))\b",
    re.IGNORECASE,
)
_ASKS_SEVERAL = re.compile(r"\b(?:how many|in total|altogether|across)\b", re.IGNORECASE)


class Cues(NamedTuple):
    """What a question wants, as far as its small words tell."""

    first_person: bool = False
    """It is about the one who asks: what they said of themselves answers it, rather than what they were told."""
    time: bool = False
    """It asks when, or for how long."""
    several: bool = False
    """It counts or compares, so that its answer is likely to be spread over several sessions."""


NO_CUES = Cues()


def cues_of(question: str) -> Cues:
    """The cues of a question, told by its English words; of one in another language there are none."""
    return Cues(
        first_person=_SELF.search(question) is not None,
        time=_ASKS_TIME.search(question) is not None,
        several=_ASKS_SEVERAL.search(question) is not None,
    )


def traits(text: str) -> list[str]:
    """The traits of a text, as index terms."""
    text = text[:SCANNED]
    found = [FIRST_PERSON] if ONE_IN * len(_SELF.findall(text)) > max(SHORTEST, len(text)) else []
    return [*found, TELLS_TIME] if _TIME.search(text) else found


def speaker_lift(cues: Cues, documents: Sequence[bytes]) -> Floats:
    """(n,), SPEAKER_LIFT for what was said in the first person, when the question was."""
    return SPEAKER_LIFT * (_having(documents, FIRST_PERSON) if cues.first_person else np.zeros(len(documents)))


def time_lift(cues: Cues, documents: Sequence[bytes]) -> Floats:
    """(n,), TIME_LIFT for what tells a time, when the question asks for one."""
    return TIME_LIFT * (_having(documents, TELLS_TIME) if cues.time else np.zeros(len(documents)))


def spread(cues: Cues, scores: Floats, episode: NDArray[np.int32]) -> Floats:
    """(n,), minus SPREAD for each better document of the same episode, when the question asks for several things."""
    lost = np.zeros(len(scores))
    if not cues.several or not len(scores):
        return lost
    order = np.lexsort((-scores, episode))
    starts = np.flatnonzero(np.diff(episode[order], prepend=episode[order[0]] - 1))
    better = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    lost[order] = -SPREAD * np.minimum(better, SPREAD_OVER)
    return np.where(episode >= 0, lost, 0.0)


def _having(documents: Sequence[bytes], trait: str) -> Floats:
    """(n,), 1 for each document whose index terms, joined by spaces, tell the trait."""
    first, later = b"%b " % trait.encode(), b" %b " % trait.encode()
    return np.array([later in terms or terms.startswith(first) for terms in documents], np.float64)
