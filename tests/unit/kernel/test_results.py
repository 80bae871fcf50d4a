"""The compiled results and candidates of a question are those of the reference, of random indexes and questions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import DIMENSIONS, MODEL, T0, entry_of, vectors_of
from numpy.typing import NDArray
from reference.results import results

from projections.index import embedded, lexical
from projections.index.embedded import EmbeddedCandidates, matches
from projections.index.lexical import K1, B
from projections.index.replica import IndexReplica
from projections.kernel.module import native
from projections.search.candidates import Meaning, by_id
from projections.search.question import Filter
from projections.search.ranking import CUES, MODES, Criteria, idf_of, shipped_weights
from projections.search.search import PARTS
from projections.store.feed import Put, Remove
from projections.text.cues import TRAITS
from projections.vectors.bitmaps import ordinals
from projections.vectors.columns import TermRows, hashed
from projections.vectors.static import StaticTable

Ordinals = NDArray[np.int64]
DAY = 86_400_000
WORDS = ["deploy", "tuesday", "pool", "kafka", "ada", "lovelac", "backup", "8", "9", "may", "2023"]
TABLE = StaticTable("static", WORDS[:7], np.random.default_rng(2).normal(size=(7, 3)).astype(np.float32))
ANYTHING = Filter(tenant="default", now_ms=0)


def random_words(dice: np.random.Generator, most: int) -> list[str]:
    return dice.choice(WORDS, dice.integers(0, most + 1)).tolist()


def random_index(dice: np.random.Generator, size: int) -> IndexReplica:
    """Return documents of all kinds, some equal, some in sessions, some without vectors or terms."""
    index = IndexReplica(DIMENSIONS, MODEL, TABLE if dice.random() < 0.7 else None)
    texts = [random_words(dice, 14) for _ in range(1 + size // 2)]
    for number in dice.permutation(size).tolist():
        name = f"{dice.choice(['mem', 'obs', 'lsn', 'sum'])}_{number:03}"
        traits = dice.choice(TRAITS, dice.integers(0, 3), replace=False)
        document = entry_of(
            name,
            "",
            terms=" ".join([*texts[dice.integers(len(texts))], *traits, "7", "may", "2023"]),
            episode=dice.choice(["", "a", "b"]),
            agent_id=dice.choice(["", "ada lovelace", "tuesday"]),
            project=dice.choice(["atlas", "atlas", "other"]),
            occurred_ms=T0 + int(dice.integers(-9, 9)) * DAY,
            importance=float(dice.integers(0, 11)),
        )
        index.apply(0, [Put(document)])
        if dice.random() < 0.7:
            index.apply(0, [vectors_of(name, *dice.normal(size=(dice.integers(1, 3), DIMENSIONS)).tolist())])
    return index


def random_vector(dice: np.random.Generator, dimensions: int) -> Any:
    vector = dice.normal(size=dimensions if dice.random() < 0.8 else 0).astype(np.float32)
    return vector / np.linalg.norm(vector)


def random_criteria(dice: np.random.Generator, mode: Any, static_dimensions: int) -> Criteria:
    """Return criteria of up to five words, of which a few hold for each question."""
    words: list[str] = dice.choice(WORDS, 0 if mode == "vector" else dice.integers(0, 6), replace=False).tolist()
    n, weights = len(words), shipped_weights()
    known, from_ms = hashed(word.encode() for word in WORDS), T0 + int(dice.integers(-9, 30)) * DAY
    flags = ["exact", "lookup", "word_or_two", "remark", "lists_parts", "fold"]
    flags += ["english", "surely_english", "of_model", "is_name"]
    chosen: dict[str, Any] = {flag: bool(dice.random() < 0.5) for flag in flags}

    def phrases(chance: float) -> TermRows:
        return TermRows.of(" ".join(random_words(dice, 2)) for _ in range(2) if dice.random() < chance)

    return Criteria(
        **chosen,
        **weights._asdict(),
        mode=MODES.index(mode),
        terms=hashed(word.encode() for word in words),
        times=dice.integers(1, 3, n).astype(np.float64),
        months=hashed(word.encode() for word in words if word == "may"),
        words=float(n),
        cues=dice.integers(0, 2, len(CUES)).astype(np.float64),
        traits=hashed(trait.encode() for trait in TRAITS),
        vector=random_vector(dice, DIMENSIONS),
        static_vector=random_vector(dice, static_dimensions),
        idf=dice.choice([0.0, 0.5, 3.0], n),
        in_table=dice.random(n) < dice.choice([0.0, 0.7]),
        trust=dice.choice([0.5, 1.0], n),
        counted=dice.random(n) < 0.7,
        numbers=dice.random(n) < 0.3,
        from_ms=from_ms,
        to_ms=from_ms + int(dice.integers(0, 4)) * DAY,
        dates=phrases(0.1),
        identifiers=phrases(0.3),
        identifiers_share=2 * dice.random(),
        names=phrases(0.1),
        limit=int(dice.integers(0, 15)),
        half_life_ms=float(dice.choice([0, 5 * DAY])),
        alpha=dice.random(),
        now_ms=T0,
        confidence_known=mode == "hybrid",
        language_terms=np.sort(known),
        language_values=(dice.random((len(known), 2)) < dice.choice([0.2, 0.4, 0.8], 2)).astype(np.int64).ravel(),
    )


@settings(max_examples=300)
@given(size=st.integers(1, 40), mode=st.sampled_from([*MODES, "hybrid", "hybrid"]), seed=st.integers(0, 2**32 - 1))
def test_results_are_in_the_order_of_the_reference_with_its_numbers(size: int, mode: Any, seed: int):
    dice = np.random.default_rng(seed)
    index = random_index(dice, size)
    documents, confidence = by_id(index, ordinals(index.alive)), dice.choice([0.2, 1.0], size)
    criteria = random_criteria(dice, mode, index.static.dimensions)
    compiled = native.results(index, documents, confidence, criteria)
    expected = results(index, documents, confidence, criteria)
    best: dict[int, list[int]] = {}
    for number, document in zip(compiled.numbers.tolist(), compiled.places.tolist(), strict=True):
        best.setdefault(number, []).append(document)
    assert list(best.values()) == [[result.place, *result.repeats] for result in expected.best]
    for column, name in enumerate(["score", "answers", "answerable", *PARTS]):
        parts = expected.parts[name][compiled.places]
        np.testing.assert_allclose(compiled.parts[:, column], parts, atol=1.5e-6, rtol=0, err_msg=name)


def best(index: IndexReplica, documents: Ordinals, scores: NDArray[Any], count: int) -> list[int]:
    """Return the documents with the highest scores, of equal ones those with the smallest ids; nan has no score."""
    scored: list[tuple[int, float]] = list(zip(documents.tolist(), scores.tolist(), strict=True))
    order = sorted((-score, index.ids[document], document) for document, score in scored if score == score)
    return [document for *_, document in order[:count]]


def by_words(index: IndexReplica, documents: Ordinals, words: Sequence[str], count: int) -> list[int]:
    said = index.terms.rows(documents)
    counts, lengths = said.counts(words), said.lengths
    idf = idf_of(np.count_nonzero(counts, axis=0).tolist(), len(documents))
    norm = K1 * (1 - B + B * lengths / (lengths.mean() or 1.0))
    scores = np.asarray((counts / (counts + norm[:, None])) @ idf, np.float64).round(9)
    saying = counts.any(axis=1)
    return best(index, documents[saying], scores[saying], count)


def expected_pool(
    index: IndexReplica, legs: Sequence[Ordinals], words: Sequence[str], meaning: Meaning, count: int, near: int
) -> list[int]:
    """Return the candidates of each leg, and their neighbors that are in the first leg, by id."""
    candidates = set[int]()
    for documents in filter(len, legs):
        candidates |= {*by_words(index, documents, list(dict.fromkeys(words)), count)}
        if meaning.vector is not None:
            candidates |= {*best(index, documents, index.vectors.cosine(meaning.vector, documents), near)}
            documents = documents[index.vectors.without(documents)]
        if meaning.static is not None:
            candidates |= {*best(index, documents, index.static.cosine(meaning.static, documents), near)}
    turns = {(index.episode[it], index.sequence[it]) for it in candidates if index.episode[it] >= 0}
    beside = {(episode, sequence + distance) for episode, sequence in turns for distance in (-1, 1)}
    neighbors = {it for it in legs[0].tolist() if (index.episode[it], index.sequence[it]) in beside}
    return sorted(candidates | neighbors, key=index.ids.__getitem__)


@given(size=st.integers(1, 40), few=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_candidates_are_the_best_of_each_leg_and_their_neighbors_by_id(size: int, few: bool, seed: int):
    """Of a filter, and of a time within; whether the terms of documents are read, or postings."""
    dice = np.random.default_rng(seed)
    index = random_index(dice, size)
    index.apply(0, [Remove(name) for name in [*index.ids] if dice.random() < 0.2])
    words, count = random_words(dice, 5), int(dice.integers(1, 6))
    vectors = [random_vector(dice, vectors.dimensions) for vectors in (index.vectors, index.static)]
    meaning = Meaning(*(vector if vector.size else None for vector in vectors))
    allowed = Filter(tenant="default", now_ms=0, project="atlas")
    every = matches(index, allowed).documents
    occurred, from_ms, to_ms = index.occurred_ms.values[every], T0 - 3 * DAY, T0 + int(dice.integers(-1, 5)) * DAY
    legs = [every, every[(from_ms <= occurred) & (occurred < to_ms)]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "STATIC_CANDIDATES", 3)
        patch.setattr(lexical, "READ_DIRECTLY", size if few else -1)
        candidates = EmbeddedCandidates(index, allowed)
        pool = candidates.pool(words, meaning, count, [candidates.within(from_ms, to_ms)])
    assert pool.tolist() == expected_pool(index, legs, words, meaning, count, max(count, 3))


def test_among_many_documents_the_best_are_those_by_all_words_however_frequent_some_are():
    """Postings of frequent words are not read, but for documents that say rare ones. A quarter says each of three."""
    dice, index, words = np.random.default_rng(5), IndexReplica(0, MODEL), ["deploy", "pool", "kafka", "ada"]
    said = dice.random((20_000, 4)) < [0.25, 0.25, 0.25, 0.02]
    texts = [" ".join(np.compress(row, words)) + " tuesday" * (number % 5) for number, row in enumerate(said)]
    index.apply(0, [Put(entry_of(f"obs_{number:05}", "", terms=text)) for number, text in enumerate(texts)])
    candidates = EmbeddedCandidates(index, ANYTHING)
    for count in (10, 350, 1_000):
        pool = candidates.pool(words, Meaning(None, None), count, []).tolist()
        assert pool == sorted(by_words(index, np.arange(20_000), words, count))
