"""BM25 by rank_bm25: the oracle of the compiled scores of words."""

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi


class Okapi(BM25Okapi):
    """Scores texts that are lists of terms, with the idf of Lucene instead of rank_bm25's own.

    Rarity is that among as many texts as there are, or among `fewest` if that is more.
    """

    def __init__(self, texts: Sequence[Sequence[str]], k1: float, b: float, fewest: int = 0) -> None:
        self._fewest = fewest
        super().__init__(texts, k1=k1, b=b)
        self.avgdl = self.avgdl or 1.0  # only empty texts

    def scores(self, question: Sequence[str]) -> NDArray[np.float64]:
        """(texts,), the score of each text; 0 for one without a term of the question."""
        return np.asarray(self.get_scores(question), np.float64)

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        documents = max(self.corpus_size, self._fewest)
        self.idf = {term: log(1 + (documents - n + 0.5) / (n + 0.5)) for term, n in nd.items()}
