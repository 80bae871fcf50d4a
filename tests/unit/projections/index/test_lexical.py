"""What the documents that a filter allows say: few of them are read, of many the postings are."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from reference.okapi import Okapi

from projections.index import lexical as module
from projections.index.lexical import K1, B, MatchingWords
from projections.index.replica import IndexReplica
from projections.nouns.index_entry import IndexEntry
from projections.search.question import MAX_QUERY_TERMS
from projections.search.ranking import FEWEST
from projections.store.feed import Put, Remove
from projections.text.cues import PROMPT
from projections.vectors.bitmaps import BitMap, Matching

MakeEntry = Callable[..., IndexEntry]
WORDS = [f"w{n}" for n in range(40)]


@pytest.fixture(params=[1_000_000, 0], ids=["read", "by postings"], autouse=True)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of filters, without thousands of documents."""
    monkeypatch.setattr(module, "READ_DIRECTLY", request.param)


def words_of(index: IndexReplica, allowed: BitMap | None = None) -> MatchingWords:
    return MatchingWords(index, index.postings, Matching(index.alive if allowed is None else allowed))


def said_by(index: IndexReplica, ordinals: Sequence[int]) -> list[str]:
    return [index.ids[ordinal] for ordinal in ordinals]


def document(random: Random, entry: MakeEntry, number: int) -> Put:
    words = random.choices(WORDS, [1 / (1 + n) for n in range(40)], k=random.randrange(1, 20))
    return Put(entry(f"mem_{number:04}", " ".join(words)))


def naive_best(texts: dict[str, list[str]], terms: Sequence[str], count: int, *, every: bool) -> list[str]:
    """Return the names of the best documents by rank_bm25."""
    scores = np.round(Okapi([*texts.values()], K1, B, fewest=FEWEST).scores(terms), 12).tolist()
    order = sorted((-score, name) for name, score in zip(texts, scores, strict=True) if score)
    return [name for _, name in order if not every or set(terms) <= set(texts[name])][:count]


def test_the_best_are_those_of_bm25_among_the_matching_also_after_changes(index: IndexReplica, entry: MakeEntry):
    random = Random(5)
    texts: dict[str, list[str]] = {}
    for turn in range(6):
        puts = [document(random, entry, turn * 50 + n) for n in range(50)]
        puts += [document(random, entry, random.randrange(turn * 50 + 50)) for _ in range(5)]
        gone = [f"mem_{random.randrange(turn * 50 + 50):04}" for _ in range(5)]
        index.apply(0, [*puts, *map(Remove, gone)])
        texts |= {put.entry.id: put.entry.terms.split() for put in puts}
        texts = {name: text for name, text in texts.items() if name not in gone}
        for share in (1.0, 0.1):
            matching = {name: text for name, text in texts.items() if random.random() < share}
            found = words_of(index, BitMap([index.ordinal_of[name] for name in matching]))
            asked = random.sample(WORDS, 5)
            frequencies = [sum(term in text for text in matching.values()) for term in asked]
            assert found.frequencies(asked) == frequencies
            for terms, count, every in ((asked, 10, False), (asked, 1_000, False), (asked[:2], 100, True)):
                best = said_by(index, found.best(terms, count, every=every))
                assert best == naive_best(matching, terms, count, every=every)


def test_documents_of_others_change_nothing(index: IndexReplica, entry: MakeEntry):
    random, alone = Random(7), IndexReplica(4, "test-model")
    mine = [document(random, entry, n) for n in range(50)]
    others = [document(random, entry, 100 + n) for n in range(300)]
    alone.apply(0, mine)
    index.apply(0, [*others[:150], *mine, *others[150:]])
    asked = ["w0", "w3", "w30", "w39"]
    matching = BitMap([index.ordinal_of[put.entry.id] for put in mine])
    one, other = words_of(alone), words_of(index, matching)
    assert one.frequencies(asked) == other.frequencies(asked)
    assert said_by(alone, one.best(asked, 9)) == said_by(index, other.best(asked, 9))


def test_what_says_more_of_rarer_words_in_fewer_comes_first(index: IndexReplica, entry: MakeEntry):
    texts = ["tea milk sugar water", "tea lemon", "tea lemon lemon", "tea"]
    index.apply(0, [Put(entry(f"mem_{n}", text)) for n, text in enumerate(texts)])
    words = words_of(index)
    assert words.best(["tea", "lemon"], 2) == [2, 1]
    assert words.best(["tea", "lemon"], 9, every=True) == [2, 1]
    assert words.best([], 9) == words.best(["tea"], 0) == words.best(["unsaid"], 9) == []
    assert words_of(index, BitMap()).best(["tea"], 9) == []


def test_the_first_words_say_what_a_long_question_is_about(index: IndexReplica, entry: MakeEntry):
    index.apply(0, [Put(entry("mem_1", "tea")), Put(entry("mem_2", "lemon"))])
    many = [f"u{n}" for n in range(MAX_QUERY_TERMS - 1)]
    assert words_of(index).best(["tea", *many, "lemon"], 9) == [0]


def test_a_word_that_few_say_counts_more_than_one_that_all_say_often(index: IndexReplica, entry: MakeEntry):
    texts = ["tea tea tea", "lemon water", *["tea water"] * 60]
    index.apply(0, [Put(entry(f"mem_{n}", text)) for n, text in enumerate(texts)])
    assert words_of(index).best(["tea", "lemon"], 2) == [1, 0]


def test_similar_words_are_those_that_the_matching_documents_say(index: IndexReplica, entry: MakeEntry):
    texts = ["zeppelin", "zeppelin zeppelin", "zepelin", "zeppelins tea", "zeppeline"]
    index.apply(0, [Put(entry(f"mem_{n}", "", terms=text)) for n, text in enumerate(texts)])
    assert words_of(index).similar("zepplin", 1) == {"zepelin": 1, "zeppelin": 2}
    assert words_of(index, BitMap([0, 3, 4])).similar("zepplin", 1) == {"zeppelin": 1}
    index.apply(0, [Remove("mem_2")])
    assert words_of(index).similar("zepplin", 1) == {"zeppelin": 2}
    assert words_of(index).similar("kafka", 2) == {}


def test_prompts_that_only_repeat_the_question_are_known(index: IndexReplica, entry: MakeEntry):
    texts = [f"tea lemon {PROMPT}", f"tea lemon milk sugar bread {PROMPT}", "tea lemon", f"milk bread {PROMPT}"]
    index.apply(0, [Put(entry(f"obs_{n}", "", terms=f"{text} d8 m5 y2026")) for n, text in enumerate(texts)])
    assert words_of(index).repeating(["tea", "lemon"]).tolist() == [0]
    assert words_of(index, BitMap([1, 2, 3])).repeating(["tea", "lemon"]).tolist() == []
