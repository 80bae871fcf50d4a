from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from projections.documents.index_entry import IndexEntry
from projections.search import lexical as module
from projections.search.lexical import Lexical, MatchingWords, link_or_copy
from projections.search.question import bitmap
from projections.search.replica import IndexReplica
from projections.store.feed import Put, Remove


@pytest.fixture
def lexical(tmp_path: Path) -> Lexical:
    return Lexical(tmp_path / "lexical")


def test_a_document_is_found_by_its_terms_after_a_commit(lexical: Lexical):
    lexical.add(7, "green tea lemon", [])
    assert lexical.saying("tea") == []
    lexical.commit()
    assert lexical.saying("tea") == [7]
    assert lexical.saying("coffee") == []


def near(lexical: Lexical, facets: list[list[str]], count: int = 10, matching: range = range(100)) -> list[str]:
    return lexical.near("tae", 1, facets, matching, count)


def test_every_facet_group_must_have_one_of_its_values(lexical: Lexical):
    lexical.add(1, "tea one", ["kind=a", "tag=x"])
    lexical.add(2, "tea two", ["kind=b", "tag=x"])
    lexical.add(3, "tea three", ["kind=a", "tag=y"])
    lexical.commit()
    assert near(lexical, [["kind=a", "kind=b"]]) == ["tea one", "tea two", "tea three"]
    assert near(lexical, [["kind=a"], ["tag=x"]]) == ["tea one"]
    assert near(lexical, [["kind=c"]]) == []


def test_a_facet_with_blanks_and_separators_is_one_value(lexical: Lexical):
    lexical.add(1, "tea", ["project\x1fblue whale / 鯨"])
    lexical.commit()
    assert near(lexical, [["project\x1fblue whale / 鯨"]]) == ["tea"]
    assert near(lexical, [["project\x1fblue"]]) == []


def test_documents_that_do_not_match_take_no_places_from_those_that_do(lexical: Lexical):
    for n in range(90, -1, -1):
        lexical.add(n, f"tea w{n}", [])
    lexical.commit()
    assert near(lexical, [], 2, range(60, 100)) == ["tea w60", "tea w61"]


def test_a_removed_document_is_gone_after_a_commit(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.add(2, "tea", [])
    lexical.commit()
    lexical.remove(1)
    lexical.commit()
    assert lexical.saying("tea") == [2]


def test_a_document_removed_before_its_first_commit_never_appears(lexical: Lexical):
    lexical.add(1, "tea", [])
    lexical.remove(1)
    lexical.commit()
    assert lexical.saying("tea") == []


def test_a_copy_is_an_index_of_its_own(lexical: Lexical, tmp_path: Path):
    """What is added or removed afterwards, on either side, stays on that side."""
    for n in range(50):
        lexical.add(n, f"tea w{n}", [])
        if n % 10 == 9:
            lexical.commit()
    lexical.copy_to(tmp_path / "snapshot")
    link_or_copy(tmp_path / "snapshot", tmp_path / "copy")
    copy = Lexical(tmp_path / "copy")
    assert len(copy.saying("tea")) == 50
    copy.add(100, "coffee", [])
    copy.remove(0)
    copy.commit()
    lexical.add(200, "juice", [])
    lexical.remove(1)
    lexical.commit()
    assert copy.saying("coffee") == [100]
    assert lexical.saying("coffee") == []
    assert lexical.saying("juice") == [200]
    assert copy.saying("juice") == []
    assert set(lexical.saying("tea")) == set(range(50)) - {1}
    assert set(copy.saying("tea")) == set(range(1, 50))
    again = tmp_path / "again"
    link_or_copy(tmp_path / "snapshot", again)
    assert set(Lexical(again).saying("tea")) == set(range(50))


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
                    for one in (
                        np.flatnonzero(index.terms.rows(np.array([*allowed])).counts([term])[:, 0]) for term in terms
                    )
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
