"""The compiled BM25 gives the scores of rank_bm25 (BM25Okapi with Lucene's idf) for real texts and questions.

They are those of `benchmarks/data` and of the demo, and with `--data PATH` others that benchmarks read.
"""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from reference.okapi import Okapi
from reference.pools import Pool, score

from api.cli.demo import build_fleet
from benchmarks.fit_ranking import NOT_HISTORIES, OWN
from benchmarks.relevance import History, Question, histories, observed
from projections.index import lexical
from projections.kernel.module import native
from projections.search import ranking
from projections.search.ranking import PoolBM25
from projections.text.terms import terms
from projections.vectors.columns import TermRows, hashed

DEMO = Path("demo")
SETS = [DEMO, *(folder for folder in sorted(OWN.iterdir()) if folder.name not in NOT_HISTORIES)]
BEST = 10


class Texts(NamedTuple):
    """The terms of each text of a history, as an index has them, and those of each question about it."""

    texts: list[list[str]]
    rows: TermRows
    questions: list[list[str]]


def demo() -> History:
    fleet = build_fleet(datetime(2026, 1, 10, tzinfo=UTC))
    events = [command for command in fleet.commands if command["type"] == "observe"]
    return History("demo", events, [Question("demo", asked.text, "", frozenset()) for asked in fleet.questions])


@cache
def read(path: Path) -> list[Texts]:
    read_texts: list[Texts] = []
    for history in [demo()] if path == DEMO else histories(path, "bm25"):
        entries = [observed(event, number).index_entry() for number, event in enumerate(history.events, 1)]
        texts = [entry.terms for entry in entries if entry]
        questions = [terms(question.text) for question in history.questions]
        read_texts.append(Texts([text.split() for text in texts], TermRows.of(texts), questions))
    return read_texts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("path", [*SETS, *metafunc.config.option.data], ids=lambda path: path.stem)


def test_postings_score_as_rank_bm25_does(path: Path):
    """Of all texts, and of some: the others change nothing."""
    for texts, rows, questions in read(path):
        postings = native.Postings()
        postings.add_each(0, rows.hashes, rows.lengths)
        everything = np.ones(len(texts), np.bool_)
        for allowed in (everything, np.arange(len(texts)) % 3 > 0):
            among = np.flatnonzero(allowed)
            okapi = Okapi([texts[number] for number in among], lexical.K1, lexical.B)
            average = float(rows.lengths[among].mean())
            for question in questions:
                asked = list(dict.fromkeys(question))
                hashes = hashed(term.encode() for term in asked)
                saying = postings.frequencies(hashes, allowed)
                idf = np.log(1 + (len(among) - saying + 0.5) / (saying + 0.5))
                expected = okapi.scores(asked)
                arguments = hashes, idf, allowed, rows.lengths, lexical.K1, lexical.B, average, 1
                documents, scores = postings.best(*arguments, len(texts))
                assert documents.tolist() == among[expected > 0].tolist()
                # Lucene leaves out the factor K1 + 1, which changes no order
                np.testing.assert_allclose(scores * (lexical.K1 + 1), expected[expected > 0], rtol=1e-9)
                _, best = postings.best(*arguments, BEST)
                least = min(BEST, len(scores))
                assert sorted(best)[-least:] == sorted(scores)[-least:]
                assert len(best) == np.count_nonzero(scores >= sorted(scores)[-least]) if least else not len(best)


def test_the_compiled_scores_of_a_pool_are_those_of_rank_bm25(path: Path):
    for texts, rows, questions in read(path):
        okapi = Okapi(texts, ranking.K1, ranking.B)
        alone = np.full(len(texts), -1, np.int32)
        pool = Pool(rows, np.full(len(texts), np.nan), alone, np.zeros(len(texts), np.int32))
        for question in questions:
            scores = score(question, pool, mode="lexical").lexical
            np.testing.assert_allclose(scores, okapi.scores(question), rtol=1e-9)


def test_the_list_by_words_of_rrf_scores_hashes_as_rank_bm25_does_terms(path: Path):
    for texts, rows, questions in read(path):
        okapi = Okapi(texts, ranking.K1, ranking.B)
        for question in questions:
            scores = np.asarray(PoolBM25(rows, question).get_scores(question), np.float64)
            np.testing.assert_allclose(scores, okapi.scores(question), rtol=1e-9)
