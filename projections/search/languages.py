"""In what language a question and its first results are, as far as confidence depends on it. Pure.

Static vectors are of English words: only where a question and its results are in English is a word without one a name.
The frequent words of other languages in Latin letters are data: `function_words.toml`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ingest.platform.files import toml_beside
from projections.search.ranking import Pool
from projections.text.cues import DATE_TERMS
from projections.text.terms import STOP_WORDS, says_english, terms
from projections.vectors.columns import Hashes, hashed, places_of
from projections.vectors.static import StaticTable

Language = Literal["English", "code", "other"]
FIRST, READ = 10, 100
"""Results that tell the language, and the first terms of each."""
KNOWN_OF_ENGLISH, KNOWN_OF_CODE = 0.53, 0.3
"""Least mean share of the terms of the first results that have a static vector: it is 0.58 to 0.9 of English work, 0.36
to 0.7 of code with its output, and less than 0.25 of languages other than those of Western Europe."""
FUNCTION_WORDS_FROM, KINDS_FROM = 0.13, 4
"""Share of function words of other languages, and how many different ones: the share is 0.17 to 0.37 of German, French,
Spanish, Italian and Portuguese, and at most 0.09 of English and code. A short text can say one or two by chance."""
KNOWN_TERMS = 0.5
"""Share of the terms of a question that have a static vector; of fewer, and without an English stop word, it is in
another language."""
_STOP_WORDS = hashed(word.encode() for word in STOP_WORDS)
_FUNCTION_WORDS = hashed(
    term.encode() for words in toml_beside(__file__, "function_words.toml").values() for term in terms(words)
)


def is_english(text: str, in_table: NDArray[np.bool_], *, surely: bool = False) -> bool:
    """Whether a question is in English; `in_table` (terms,): which of its terms have a static vector.

    A word or two without a vector may be: with `surely`, they are not.
    """
    share = in_table.mean()
    if surely:
        return bool(share > KNOWN_TERMS and says_english(text))
    return bool(share and (share >= KNOWN_TERMS or says_english(text)))


def language_of(pool: Pool, order: Sequence[int], table: StaticTable) -> Language:
    """The language of most of the first results; English if they have no words."""
    first = [hashes for hashes in pool.terms.beginnings(order[:FIRST], DATE_TERMS, READ) if len(hashes)]
    if not first:
        return "English"
    hashes, values = _terms_of(table)
    lengths = np.array([len(of_document) for of_document in first])
    places = places_of(np.concatenate(first), hashes)
    counted = np.add.reduceat(values[places], np.cumsum(lengths) - lengths)
    english, function_words = counted.T / lengths
    if english.mean() < KNOWN_OF_CODE:
        return "other"
    kinds = np.unique(places)
    if function_words.mean() >= FUNCTION_WORDS_FROM and values[kinds, 1].sum() >= KINDS_FROM:
        return "other"
    return "English" if english.mean() >= KNOWN_OF_ENGLISH else "code"


@lru_cache(maxsize=4)
def _terms_of(table: StaticTable) -> tuple[Hashes, NDArray[np.int64]]:
    """(n,) hashes of terms, ascending, and (n + 1, 2), whether each is known in English, and whether it is a function
    word of another language; the last row is of all other terms."""
    hashes = np.unique(np.concatenate([table.hashes, _STOP_WORDS, _FUNCTION_WORDS]))
    # short texts have their stop words, which are English
    english = table.knows(hashes) | np.isin(hashes, _STOP_WORDS)
    values = np.stack([english, np.isin(hashes, _FUNCTION_WORDS)], axis=1).astype(np.int64)
    return hashes, np.concatenate([values, np.zeros((1, 2), np.int64)])
