"""BM25 over a pool of candidates. The one file that imports rank_bm25."""

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
from rank_bm25 import BM25Okapi

from projections.search.term_rows import TermRows

K1 = 0.9
"""With B, Anserini's defaults; 0.6, 1.2 and B 0.2 within 0.1 of recall@10 (LoCoMo)."""
B = 0.4


class PoolBM25(BM25Okapi):
    """BM25Okapi over the pool, reduced to the query's terms: other words only count towards length.

    Its idf is Lucene's, log(1 + (N - n + 0.5) / (n + 0.5)): rank_bm25's own is zero or negative for a word that half of
    a small pool holds. Measured equal otherwise.
    """

    def __init__(self, documents: TermRows, query_terms: Sequence[str]) -> None:
        self.idf: dict[str, float] = {}
        self.distinct = list(dict.fromkeys(query_terms))
        super().__init__(documents, k1=K1, b=B)

    def _initialize(self, corpus: TermRows) -> dict[str, int]:
        self.counts = corpus.counts(self.distinct)
        self.corpus_size = len(corpus)
        self.doc_freqs: list[dict[str, float]] = [{} for _ in range(len(corpus))]
        for place, column in zip(*(axis.tolist() for axis in np.nonzero(self.counts)), strict=True):
            self.doc_freqs[place][self.distinct[column]] = self.counts[place, column]
        self.doc_len: list[int] = corpus.lengths.tolist()
        self.avgdl = sum(self.doc_len) / max(1, self.corpus_size) or 1.0
        holding: list[int] = np.count_nonzero(self.counts, axis=0).tolist()
        return {term: n for term, n in zip(self.distinct, holding, strict=True) if n}

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        self.idf = {term: log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in nd.items()}
