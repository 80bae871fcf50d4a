"""In what language a question is, and which terms tell the language of results, as far as confidence depends on it.

Static vectors are of English words: only where a question and its results are in English is a word without one a name.
The frequent words of other languages in Latin letters are data: `function_words.toml`.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ingest.platform.files import toml_beside
from projections.text.terms import STOP_WORDS, says_english, terms
from projections.vectors.columns import Hashes, hashed
from projections.vectors.static import StaticTable

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


@lru_cache(maxsize=4)
def terms_of_languages(table: StaticTable) -> tuple[Hashes, NDArray[np.int64]]:
    """(n,) hashes of terms, ascending, and (2 * n,), whether each is known in English, and whether it is a function
    word of another language: by these, `native.results` tells the language of the first results."""
    hashes = np.unique(np.concatenate([table.hashes, _STOP_WORDS, _FUNCTION_WORDS]))
    # short texts have their stop words, which are English
    english = table.knows(hashes) | np.isin(hashes, _STOP_WORDS)
    return hashes, np.stack([english, np.isin(hashes, _FUNCTION_WORDS)], axis=1).astype(np.int64).ravel()
