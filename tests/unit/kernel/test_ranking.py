"""The compiled features of a pool are those of the reference, of random pools."""

from typing import Any

import numpy as np
import reference.ranking as reference
from hypothesis import given
from hypothesis import strategies as st
from reference.pools import Pool, evidence, score

from projections.search.ranking import FEATURES, MODES
from projections.text.cues import TRAITS, Cues
from projections.vectors.columns import TermRows

VOCABULARY = ["deploy", "tuesday", "pool", "ada", "lovelac", "mai", "8", "2023", "june", *TRAITS]


def random_pool(dice: np.random.Generator, size: int) -> Pool:
    """Documents of few words, some alone, some without vectors, some with equal columns."""
    texts = [" ".join(dice.choice(VOCABULARY, dice.integers(0, 16))) for _ in range(size)]
    episode = dice.integers(-1, 3, size).astype(np.int32)
    sequence = np.array([np.count_nonzero(episode[:n] == episode[n]) for n in range(size)], np.int32)

    def cosines() -> Any:
        values = dice.choice([0.1, 0.25, 0.5, dice.random(), np.nan], size).astype(np.float32)
        return values if dice.random() < 0.9 else np.full(size, np.nan, np.float32)

    return Pool(
        terms=TermRows.of(texts),
        cosine=cosines(),
        episode=episode,
        sequence=np.where(episode < 0, 0, sequence * dice.integers(1, 3)).astype(np.int32),
        static=cosines() if dice.random() < 0.8 else None,
        author=dice.integers(0, 3, size).astype(np.int32) if dice.random() < 0.8 else None,
        names={0: (), 1: ("ada", "lovelac"), 2: ("tuesday",)},
        occurred_ms=dice.integers(0, 5, size) if dice.random() < 0.8 else None,
        importance=dice.integers(0, 11, size).astype(np.float32) if dice.random() < 0.8 else None,
    )


@given(size=st.integers(1, 40), words=st.integers(0, 12), mode=st.sampled_from(MODES), seed=st.integers(0, 2**32 - 1))
def test_features_and_scores(size: int, words: int, mode: Any, seed: int):
    dice = np.random.default_rng(seed)
    pool = random_pool(dice, size)
    query: list[str] = dice.choice([*VOCABULARY, "unsaid"], words).tolist()
    cues = Cues(*(dice.random(len(Cues._fields)) < 0.5).tolist())
    inside = dice.random(size) < 0.5 if dice.random() < 0.5 else None
    compiled = score(query, pool, mode=mode, cues=cues, inside=inside)
    expected = reference.score(query, pool, mode=mode, cues=cues, inside=inside)
    assert np.isfinite(compiled.final).all()
    for column, name in enumerate(FEATURES):
        np.testing.assert_allclose(
            compiled.features[:, column], expected.features[:, column], rtol=1e-9, atol=1e-9, err_msg=name
        )
    for name in ("kind", "weights", "lexical", "final", "relevance", "said", "near", "traits"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(expected, name), rtol=1e-9, atol=1e-9, err_msg=name)


@given(size=st.integers(0, 20), terms=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_what_speaks_for_each_document(size: int, terms: int, seed: int):
    """Of short and long questions, of rare, unknown and corrected words, without some vectors."""
    dice = np.random.default_rng(seed)
    said = dice.choice([0.0, 0.0, 1.0, 3.0], (size, terms))
    near = np.maximum(said, dice.choice([0.0, 1.0], (size, terms)))
    idf = dice.choice([0.0, 0.5, 2.0], terms)
    static, cosine = (dice.choice([0.1, 0.7, np.nan], size) for _ in range(2))
    given = said, near, idf, static, cosine, dice.random(terms) < 0.7, dice.choice([0.5, 1.0], terms)
    np.testing.assert_allclose(evidence(*given), reference.evidence(*given), rtol=1e-9, atol=1e-12)
