"""Jaccard similarity, and a prefix filter that never misses a match."""

from collections import Counter
from datetime import date

import pytest
from facts import distinct_pairs, restatements
from hypothesis import given
from hypothesis import strategies as st

from projections.text.similarity import (
    LONG,
    SIMILAR_ABOVE,
    SUPERSEDE_ABOVE,
    Distinct,
    differ_in_facts,
    distinct,
    jaccard,
    keys,
    keys_of,
    probe_tokens,
    signature,
    similarity,
    statement_key,
    states_the_same,
)
from projections.text.terms import date_terms, terms
from projections.vectors.columns import TermRows

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


WORDS_STATEMENTS = " ".join(f"word{n}" for n in range(40))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The cart is empty.", "the cart  is EMPTY!"),
        ("The caches of both nodes are cleared", "caches of both nodes cleared"),
        ("The port of the node is closed", "the ports of the nodes are closed"),
        ("It doesn\u2019t work", "it does not work!"),
        ("The disk has 10GB free", "disk has 10 GB free."),
        ("Well-known ports", "Well known ports"),
        ("\u201cQuoted\u201d \u2014 text (here)", "quoted text here"),
        ("- use tabs, never spaces", "Use tabs never spaces"),
        ("THE CACHE IS CLEARED", "the cache is cleared"),
        ("Der Dienst ist aktiv.", "Dienst aktiv"),
        ("El servidor est\u00e1 en Madrid", "servidor en Madrid"),
        ("La sauvegarde tourne la nuit", "sauvegarde tourne la nuit !"),
        (
            "\u0421\u0435\u0440\u0432\u0435\u0440 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442.",
            "\u0441\u0435\u0440\u0432\u0435\u0440 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
        ),
        ("\u4f7f\u7528Redis\u7f13\u5b58\u3002", "\u4f7f\u7528 Redis \u7684\u7f13\u5b58"),
        ("\u6570\u636e\u5e93", "\u6570\u636e\u5e93"),
        ("", ""),
        ("!!!", "!!!"),
    ],
)
def test_case_punctuation_spacing_plurals_and_function_words_state_nothing(one: str, other: str):
    assert states_the_same(one, other)
    assert states_the_same(other, one)
    assert statement_key(one) == statement_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice is allergic to peanuts", "Alicia is allergic to peanuts"),
        ("Adam is on call", "Adams is on call"),
        ("Ada's son is ill", "Ada is ill"),
        ("Build 4711 passed", "Build 4712 passed"),
        ("The port is 8080.", "The port is 8081."),
        ("It costs 1,200 euros", "It costs 1,900 euros"),
        ("It costs 5 EUR", "It costs 5 USD"),
        ("It costs $5", "It costs \u20ac5"),
        ("The disk takes 5 MB", "the disk takes 5 Mb"),
        ("A wall of 6' height", 'A wall of 6" height'),
        ("At -5 degrees it stops", "At 5 degrees it stops"),
        ("Write it in C++", "Write it in C#"),
        ("Version 1.2.4 is out", "Version 12.4 is out"),
        ("Ask api.example.com", "Ask api.example.org"),
        ("Run it with --force", "Run it with force"),
        ("Server A is down", "Server B is down"),
        ("Server A is down", "Server is down"),
        ("IT is slow", "it is slow"),
        ("The backup is enabled", "The backup is not enabled"),
        ("The backup is enabled", "The backup isn't enabled"),
        ("The backup is enabled", "Is the backup enabled?"),
        ("The office is in Berlin", "The office was in Berlin"),
        ("Deploys run before tests", "Deploys run after tests"),
        ("We migrate from Postgres to MySQL.", "We migrate from MySQL to Postgres."),
        ("Backups are encrypted at rest.", "Backups are not encrypted at rest."),
        (WORDS_STATEMENTS, f"{WORDS_STATEMENTS} more"),
        ("a " * LONG + "x", "a " * LONG + "y"),
        ("Der Dienst ist aktiv", "Der Dienst ist nicht aktiv"),
        ("Es gibt eine Kopie", "Es gibt keine Kopie"),
        ("El backup est\u00e1 activo", "El backup no est\u00e1 activo"),
        ("La cl\u00e9 est valide", "La cl\u00e9 n'est pas valide"),
        (
            "\u0421\u0435\u0440\u0432\u0435\u0440 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
            "\u0421\u0435\u0440\u0432\u0435\u0440 \u043d\u0435 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
        ),
        ("\u5907\u4efd\u5df2\u542f\u7528", "\u5907\u4efd\u672a\u542f\u7528"),
        ("\u670d\u52a1\u5668\u5728\u4e1c\u4eac", "\u670d\u52a1\u5668\u5728\u5927\u962a"),
        ("!!!", "???"),
    ],
)
def test_any_other_word_states_something_else(one: str, other: str):
    assert not states_the_same(one, other)
    assert not states_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("ada rows every single morning", "ada rows every single evening", False),
        ("the build 4711 passed", "the build 4712 passed", True),
        ("It works for Alice", "It works for Bob", True),
        ("Alice may enter", "Bob may enter", True),
        ("it takes 5 minutes", "it takes 5 hours", True),
        ("the backup works", "the backup never works", True),
        ("from Postgres to MySQL", "from MySQL to Postgres", True),
        ("\u670d\u52a1\u5668\u5728\u4e1c\u4eac", "\u670d\u52a1\u5668\u5728\u5927\u962a", True),
        ("Ada rows", "ADA ROWS", False),
    ],
)
def test_numbers_names_units_and_negations_are_facts(one: str, other: str, differ: bool):
    assert differ_in_facts(one, other) is differ
    assert differ_in_facts(other, one) is differ


def test_of_500_pairs_of_distinct_facts_none_is_merged():
    pairs = list(distinct_pairs())
    assert len({*pairs}) > 400
    assert Counter(pair.language for pair in pairs).keys() == {"en", "de", "es", "fr", "zh"}
    assert [pair for pair in pairs if states_the_same(pair.one, pair.other)] == []


def test_most_of_200_restatements_are_merged_or_reported():
    pairs = list(restatements())
    merged = [pair for pair in pairs if states_the_same(pair.one, pair.other)]
    reported = [pair for pair in pairs if pair in merged or similarity(pair.one, pair.other) > SUPERSEDE_ABOVE]
    assert len(merged) >= 0.7 * len(pairs), Counter((pair.language, pair.how) for pair in pairs if pair not in merged)
    assert len(reported) >= 0.95 * len(pairs), [pair for pair in pairs if pair not in reported]


LONG_REPEATS = " ".join(f"word{n}" for n in range(40))
MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)


def rows(*texts: str, days: tuple[date, ...] = ()) -> TermRows:
    named = days or (MONDAY,) * len(texts)
    return TermRows.of(" ".join([*terms(text), *date_terms(day)]) for text, day in zip(texts, named, strict=True))


def test_the_same_text_is_found_once_and_its_repeats_are_named_best_first():
    documents = rows("The cart is empty.", "Deploy on Tuesday.", "the cart is EMPTY", "The cart is empty!")
    assert distinct(documents, [2, 1, 0, 3], 10) == [Distinct(2, [0, 3]), Distinct(1, [])]


def test_what_was_said_again_on_another_day_is_a_repeat():
    documents = rows("The cart is empty.", "The cart is empty.", days=(MONDAY, TUESDAY))
    assert distinct(documents, [0, 1], 10) == [Distinct(0, [1])]


@pytest.mark.parametrize(
    ("other", "repeats"),
    [(f"{LONG_REPEATS} more", [1]), (f"{LONG_REPEATS} but ends with seven quite different nouns", [])],
)
def test_a_word_more_or_less_in_a_long_text_makes_no_difference(other: str, repeats: list[int]):
    assert distinct(rows(LONG_REPEATS, other), [0, 1], 10)[0] == Distinct(0, repeats)


def test_one_word_makes_a_short_text_another():
    assert len(distinct(rows("The port is 8080.", "The port is 9090."), [0, 1], 10)) == 2


def test_repeats_do_not_take_the_place_of_other_results():
    documents = rows(*["The cart is empty."] * 5, "Deploy on Tuesday.", "Money is in cents.")
    assert distinct(documents, list(range(7)), 2) == [Distinct(0, [1, 2, 3, 4]), Distinct(5, [])]


def test_documents_without_words_repeat_nothing():
    assert len(distinct(rows("", ""), [0, 1], 10)) == 2
