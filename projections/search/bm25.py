"""BM25 over a pool of candidates. The one file that imports rank_bm25."""

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

Floats = NDArray[np.float64]

K1 = 0.9
"""With B, Anserini's defaults; 0.6, 1.2 and B 0.2 within 0.1 of recall@10 (LoCoMo)."""
B = 0.4


class PoolBM25(BM25Okapi):
    """BM25Okapi over the pool, reduced to the query's terms: other words only count towards length.

    Its idf is Lucene's, log(1 + (N - n + 0.5) / (n + 0.5)): rank_bm25's own is zero or negative for a word that half of
    a small pool holds. Measured equal otherwise.
    """

    def __init__(self, documents: Sequence[bytes], query_terms: Sequence[str]) -> None:
        self.idf: dict[str, float] = {}
        self.distinct = list(dict.fromkeys(query_terms))
        super().__init__(documents, k1=K1, b=B)

    def _initialize(self, corpus: Sequence[bytes]) -> dict[str, int]:
        self.counts = _counts(corpus, self.distinct)
        self.corpus_size = len(corpus)
        self.doc_freqs: list[dict[str, float]] = [{} for _ in corpus]
        for place, column in zip(*(axis.tolist() for axis in np.nonzero(self.counts)), strict=True):
            self.doc_freqs[place][self.distinct[column]] = self.counts[place, column]
        self.doc_len = [document.count(b" ") + 1 if document else 0 for document in corpus]
        self.avgdl = sum(self.doc_len) / max(1, self.corpus_size) or 1.0
        holding: list[int] = np.count_nonzero(self.counts, axis=0).tolist()
        return {term: n for term, n in zip(self.distinct, holding, strict=True) if n}

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        self.idf = {term: log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}


def _counts(documents: Sequence[bytes], words: Sequence[str]) -> Floats:
    """(n, words), how often each document says each word.

    All documents are searched as one text: splitting them into lists of words took most of a search. Spaces are doubled
    because the one behind a word cannot be the one before the next.
    """
    text = b" %b " % b" \n ".join(documents).replace(b" ", b"  ")
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    counts = np.zeros((len(documents), len(words)))
    for column, word in enumerate(words):
        sought = b" %b " % word.encode()
        pieces = text.split(sought)
        places = np.cumsum([len(piece) + len(sought) for piece in pieces[:-1]])
        counts[:, column] = np.bincount(np.searchsorted(ends, places), minlength=len(documents))
    return counts
