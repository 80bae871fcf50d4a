"""How sure a result is an answer at all: absolute, where a ranking's scores only compare the results of one question.

A logistic model of how much of the question is said around the result, how much of it anything among the candidates
says, how near static and model vectors are, and how much of it no candidate says and no model knows: a name or a number
that nobody mentioned. Words count by how rare they are among the documents that the reader can read.

Fitted to questions that the sessions of two projects of agents' work (MIT) and of `benchmarks/coding.py` answer, and to
others that they do not; `python -m benchmarks abstain` measures it, decision 51 has the figures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEAR, SAID, UNKNOWN, STATIC, COSINE, CONSTANT = 5.3, 4.1, -4.5, 2.8, 2.8, -6.2
ANSWERED_FROM = 0.18
"""Below that the first result is no answer. Of all sets at most 0.9 points of recall@10 are below it, and three of four
questions that nobody answered; at 0.2 the former are 1.4."""


EXPECTED_COSINE = 0.35
"""Stands for the model's, until a document has its vector: about that of a result that is barely an answer."""


CORRECTED = 0.5
"""How far a corrected term is trusted: often nobody ever said what was asked, and something like it."""


FEWEST = 1_000
"""Documents that rarity is told from, at least. Of three, one of which said "checkout" and none "fail", "fail" counted
twice as much, and "why did checkout fail?" found nothing on a new server."""


PART, STEP = 16, 8
"""Terms of a part of a long question, and from one part to the next. Of questions with 90 words around them, 37 % were
withheld without parts and none with them; of those without an answer 33 % are, and 80 % were."""


def idf_of(frequencies: Sequence[int], documents: int) -> Floats:
    """(terms,), Lucene's log(1 + (N - n + 0.5) / (n + 0.5)), of how many of the documents say each."""
    n = np.minimum(np.asarray(frequencies, np.float64), documents)
    return np.log(1 + (max(documents, FEWEST) - n + 0.5) / (n + 0.5))


def confidence(
    said: Floats,
    near: Floats,
    idf: Floats,
    static: NDArray[np.floating],
    cosine: NDArray[np.floating],
    known: NDArray[np.bool_],
    trust: Floats | float = 1.0,
) -> Floats:
    """(n,) 0..1, of each document of a pool; a long question is judged by its best part.

    `said` and `near` (n, terms) are above 0 where a document, or one near it, says the term; `static` and `cosine` (n,)
    are nan for a document without the vector. `known` (terms,) are those with a static vector, `trust` (terms,) is how
    far each term is what was asked.
    """
    if not len(said) or not idf.sum():
        return np.zeros(len(said))
    anywhere = np.asarray((said > 0).any(axis=0), np.bool_)
    weight, near, new = idf * trust, np.minimum(near, 1.0), idf * ~(known | anywhere)
    words: list[Floats] = [
        (NEAR * near[:, part] @ weight[part] + SAID * anywhere[part] @ weight[part] + UNKNOWN * new[part].sum())
        / idf[part].sum()
        for part in _parts(len(idf))
    ]
    meaning = STATIC * np.nan_to_num(static) + COSINE * np.where(np.isnan(cosine), EXPECTED_COSINE, cosine)
    return 1 / (1 + np.exp(-(np.max(words, axis=0) + meaning + CONSTANT)))


def _parts(terms: int) -> list[slice]:
    """All of the question and, where it is long, its overlapping parts."""
    starts = range(0, terms - STEP, STEP) if 2 * terms > 3 * PART else ()
    return [slice(0, terms), *(slice(start, start + PART) for start in starts)]


def confidence_by_words(terms: Sequence[str], near: Floats, idf: Floats) -> Floats:
    """(n,) 0..1, where no vector knows a word of the question: half of it is enough, and all its numbers are needed.

    So a ticket, a version or an address that nobody mentioned is found nowhere, whatever looks like it.
    """
    near = np.minimum(near, 1.0)
    numbers = np.array([term.isalnum() and any(map(str.isdigit, term)) for term in terms], np.bool_)
    return np.minimum(1.0, 2 * near @ idf / idf.sum()) * near[:, numbers].all(axis=1)
