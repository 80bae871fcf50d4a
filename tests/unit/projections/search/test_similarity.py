"""Jaccard similarity, and a prefix filter that never misses a match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.search.similarity import (
    SIMILAR_ABOVE,
    SUPERSEDE_ABOVE,
    jaccard,
    keys,
    keys_of,
    probe_tokens,
    signature,
    similarity,
)

WORDS = st.sampled_from([f"word{number}" for number in range(12)] + ["a", "is", "ok"])
TEXTS = st.lists(WORDS, max_size=30).map(" ".join)


def test_case_repetition_and_short_words_do_not_count():
    assert similarity("The cat is on the MAT", "mat the at cat") == 1


def test_similarity_is_the_shared_part_of_the_union():
    assert similarity("alpha beta gamma", "beta gamma delta") == 0.5


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("ok go", "OK  go ", 1),
        ("ok go", "go ok", 0),
        ("", "", 1),
        ("", "ok", 0),
        ("ok", "okay", 0),
        ("ok go", "okgo", 0),
    ],
)
def test_texts_without_tokens_are_alike_only_if_equal(left: str, right: str, expected: float):
    assert similarity(left, right) == expected


def test_two_empty_signatures_share_nothing():
    assert jaccard((), ()) == 0


def test_the_order_of_a_signature_is_stable_across_releases():
    assert signature("alpha beta gamma delta") == signature("delta gamma beta alpha")
    assert signature("alpha beta gamma") == ("gamma", "alpha", "beta")


@given(TEXTS, TEXTS, st.sampled_from([SIMILAR_ABOVE, SUPERSEDE_ABOVE, 0.5, 0.9]))
def test_the_filter_never_misses_a_pair_above_the_threshold(left: str, right: str, threshold: float):
    """Brute force is the model, also with an index cut at a lower threshold than the probe's."""
    one, other = signature(left), signature(right)
    if jaccard(one, other) > threshold:
        assert set(probe_tokens(one, threshold)) & set(probe_tokens(other, threshold))
        assert set(probe_tokens(one, threshold)) & set(probe_tokens(other, min(threshold, SIMILAR_ABOVE)))


@pytest.mark.parametrize("threshold", [SIMILAR_ABOVE, SUPERSEDE_ABOVE])
def test_the_filter_holds_at_the_threshold_itself(threshold: float):
    """Texts that miss as many leading tokens as they may are still found, whatever the size rounds to."""
    for size in range(1, 60):
        whole = signature(" ".join(f"token{number}" for number in range(size)))
        for start in range(size):
            tail = whole[start:]
            if jaccard(whole, tail) > threshold:
                assert set(probe_tokens(whole, threshold)) & set(probe_tokens(tail, threshold))


@given(TEXTS, TEXTS)
def test_keys_never_miss_a_pair_above_the_threshold(left: str, right: str):
    one, other = signature(left), signature(right)
    if jaccard(one, other) > SUPERSEDE_ABOVE:
        assert set(keys(one).probe) & set(keys(other).filed)
        assert keys(one).matching()(keys(other).sketch)


def test_keys_meet_whatever_their_sizes():
    """Also where one side is looked for by pairs and the other by single tokens."""
    for size, start in ((n, start) for n in range(1, 80) for start in range(n)):
        whole = signature(" ".join(f"token{number}" for number in range(size)))
        for part in (whole[start:], whole[: size - start]):
            if jaccard(whole, part) > SUPERSEDE_ABOVE:
                assert set(keys(whole).probe) & set(keys(part).filed)
                assert set(keys(part).probe) & set(keys(whole).filed)
                assert keys(whole).matching()(keys(part).sketch)
                assert keys(part).matching()(keys(whole).sketch)


def test_a_sketch_tells_apart_what_shares_only_a_few_words():
    one = signature(" ".join(f"alpha{number}" for number in range(14)) + " configuration authentication")
    other = signature(" ".join(f"omega{number}" for number in range(14)) + " configuration authentication")
    assert set(keys(one).probe) & set(keys(other).filed)
    assert not keys(one).matching()(keys(other).sketch)


@given(st.text(alphabet=st.characters()))
def test_every_text_has_a_signature_with_something_to_probe(text: str):
    assert probe_tokens(signature(text), SUPERSEDE_ABOVE)
    assert keys_of(text).probe
    assert set(keys_of(text).probe) <= set(keys_of(text).filed)
