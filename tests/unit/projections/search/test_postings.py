"""Candidates by words, as postings give them and as reading every document does."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from projections.documents.index_entry import IndexEntry
from projections.search import lexical as module
from projections.search.lexical import MatchingWords
from projections.search.question import bitmap
from projections.search.replica import IndexReplica
from projections.store.feed import Put, Remove

WORDS = [f"w{n}" for n in range(40)]
MakeEntry = Callable[..., IndexEntry]


def document(random: Random, entry: MakeEntry, number: int) -> Put:
    return Put(entry(f"mem_{number:04}", " ".join(random.choices(WORDS, [1 / (1 + n) for n in range(40)], k=12))))


@pytest.mark.parametrize("rare", [2, 1_000_000])
def test_postings_are_what_reading_every_document_gives_also_after_changes(
    index: IndexReplica, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, rare: int
):
    """Whether terms are rare, so that tantivy lists their documents, or looked for among all."""
    monkeypatch.setattr(module, "RARE", rare)
    random = Random(5)
    for turn in range(6):
        index.apply(0, [document(random, entry, turn * 50 + n) for n in range(50)])
        index.apply(0, [Remove(f"mem_{random.randrange(turn * 50 + 50):04}") for _ in range(5)])
        index.apply(0, [document(random, entry, random.randrange(turn * 50 + 50)) for _ in range(5)])
        if turn % 2:
            index.commit()
        for allowed in (index.alive, bitmap(np.arange(0, 3 * turn + 10)) & index.alive):
            terms = random.choices(WORDS, k=5)
            with monkeypatch.context() as patch:
                read = MatchingWords(index, index.postings, allowed)
                patch.setattr(module, "READ_DIRECTLY", 0)
                cached = MatchingWords(index, index.postings, allowed)
                assert cached.frequencies(terms) == [
                    len(one)
                    for one in (np.flatnonzero(index.said(np.array([*allowed]), [term])[:, 0]) for term in terms)
                ]
                best = cached.best(terms, 10)
            assert read.frequencies(terms) == cached.frequencies(terms)
            assert read.best(terms, 10) == best
            assert read.best(terms[:2], 100, every=True) == cached.best(terms[:2], 100, every=True)


def test_what_says_more_of_rarer_words_in_fewer_comes_first(index: IndexReplica, entry: MakeEntry):
    texts = ["tea milk sugar water", "tea lemon", "tea lemon lemon", "tea"]
    index.apply(0, [Put(entry(f"mem_{n}", text)) for n, text in enumerate(texts)])
    words = MatchingWords(index, index.postings, index.alive)
    assert words.best(["tea", "lemon"], 2) == [2, 1]
    assert words.best(["tea", "lemon"], 9, every=True) == [2, 1]
    assert words.best([], 9) == words.best(["tea"], 0) == words.best(["unsaid"], 9) == []
    assert words.best(["tea", *(f"u{n}" for n in range(5_000))], 9) == words.best(["tea"], 9)


def test_a_word_that_few_say_counts_more_than_one_that_all_say_often(index: IndexReplica, entry: MakeEntry):
    texts = ["tea tea tea", "lemon water", *["tea water"] * 60]
    index.apply(0, [Put(entry(f"mem_{n}", text)) for n, text in enumerate(texts)])
    assert MatchingWords(index, index.postings, index.alive).best(["tea", "lemon"], 2) == [1, 0]


def test_cached_postings_are_bounded(tmp_path: Path, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch):
    index = IndexReplica(tmp_path / "bounded", 4, "test-model")
    index.apply(0, [Put(entry(f"mem_{n}", "tea lemon milk")) for n in range(50)])
    monkeypatch.setattr(module, "CACHED", 100)
    monkeypatch.setattr(module, "CACHED_A_DOCUMENT", 0)
    for term in ("tea", "lemon", "milk", "unsaid", "tea"):
        assert len(index.postings.of(term).documents) == (0 if term == "unsaid" else 50)
        cached: dict[str, tuple[int, module.Posting]] = vars(index.postings)["_cached"]
        sizes = [module.A_TERM + len(one.documents) for _, one in cached.values()]
        assert sum(sizes) == vars(index.postings)["_size"] <= 100
