"""How sure a result is an answer at all: absolute, where a ranking's scores only compare the results of one question.

A logistic model of three things: how much of the question is said around the result, how near their static vectors are,
and how much of it anything among the candidates says. Words count by how rare they are in the whole index, so one that
nobody ever said counts most. Fitted to 175 questions that the sessions of two projects of agents' work (MIT) answer and
60 that they do not; `benchmarks/abstain.py` measures it, decision 41 has the figures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEAR, STATIC, SAID, CONSTANT = 3.1, 3.1, 6.6, -5.4
ANSWERED_FROM = 0.22
"""Below that the first result is no answer: 97 of 100 questions that have one are above it, three of four that have
none below."""


CORRECTED = 0.5
"""How far a corrected term is trusted: often nobody ever said what was asked, and something like it."""


FEWEST = 1_000
"""Documents that rarity is told from, at least. Of three, one of which said "checkout" and none "fail", "fail" counted
twice as much, and "why did checkout fail?" found nothing on a new server."""


def idf_of(frequencies: Sequence[int], documents: int) -> Floats:
    """(terms,), Lucene's log(1 + (N - n + 0.5) / (n + 0.5)), of how many of all documents say each."""
    n = np.minimum(np.asarray(frequencies, np.float64), documents)
    return np.log(1 + (max(documents, FEWEST) - n + 0.5) / (n + 0.5))


def confidence(
    said: Floats, near: Floats, idf: Floats, static: NDArray[np.floating], trust: Floats | float = 1.0
) -> Floats:
    """(n,) 0..1, of each document of a pool.

    `said` and `near` (n, terms) are above 0 where a document, or one near it, says the term; `static` (n,) are cosines,
    nan for a document without a vector. `trust` (terms,) is how far each term is what was asked.
    """
    total = idf.sum()
    if not len(said) or not total:
        return np.zeros(len(said))
    share = np.minimum(near, 1.0) @ (idf * trust) / total
    anywhere = float((said > 0).any(axis=0) @ (idf * trust) / total)
    score = NEAR * share + STATIC * np.nan_to_num(static) + SAID * anywhere + CONSTANT
    return 1 / (1 + np.exp(-score))
