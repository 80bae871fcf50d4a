"""Sentences are found, compared and chosen, never made."""

import time

from hypothesis import given
from hypothesis import strategies as st

from projections.compression.sentences import (
    SCAN_CHARS,
    STATEMENT_CHARS,
    alike_groups,
    best,
    centrality,
    distinct,
    distinct_texts,
    fitting,
    leading,
    pieces,
    shortened,
    statements,
)
from projections.search.similarity import jaccard

WORD_SETS = st.lists(st.frozensets(st.sampled_from("abcdefgh"), max_size=8), max_size=30)


def naive_groups(word_sets: list[frozenset[str]], threshold: float) -> list[list[int]]:
    """Every set compared with every leader."""
    groups: list[list[int]] = []
    for index, words in enumerate(word_sets):
        for group in groups:
            if jaccard(words, word_sets[group[0]]) >= threshold:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


@given(WORD_SETS, st.sampled_from([0.4, 0.5, 0.7, 1.0]))
def test_grouping_finds_what_comparing_all_pairs_finds(word_sets: list[frozenset[str]], threshold: float):
    assert alike_groups(word_sets, threshold) == naive_groups(word_sets, threshold)


def test_a_similarity_of_exactly_the_threshold_is_alike():
    seven_of_ten = frozenset("abcdefg"), frozenset("abcdefghij")
    assert distinct(seven_of_ten, 0.7) == [0]
    assert distinct(seven_of_ten, 0.71) == [0, 1]


def test_sets_without_words_are_all_kept():
    assert distinct([frozenset(), frozenset(), frozenset("a"), frozenset("a")]) == [0, 1, 2]


def test_grouping_thousands_of_different_sentences_is_fast():
    word_sets = [frozenset(f"word{n * step}" for step in range(1, 12)) | {"the", "and"} for n in range(5_000)]
    started = time.thread_time()
    assert len(alike_groups(word_sets, 0.7)) > 4_000
    assert time.thread_time() - started < 5


def test_a_piece_ends_at_a_full_stop_before_white_space_only():
    assert pieces(" See v1.2 of a.py!  Really?\nYes. ") == ["See v1.2 of a.py!", "Really?", "Yes."]


def test_list_items_are_statements_of_their_own_and_wrapped_lines_are_not():
    text = "# What was done\n- fixed the retry loop\n2. Raised the timeout,\nwhich was too low.\nUpdated the docs"
    assert statements(text) == [
        "What was done",
        "fixed the retry loop",
        "Raised the timeout, which was too low.",
        "Updated the docs",
    ]


def test_questions_code_and_short_answers_state_nothing():
    assert statements("Thanks!\nDid the deployment work?\n```\nwhile True: must_never()\n```\n") == []


@given(st.text(max_size=3 * SCAN_CHARS))
def test_a_statement_is_one_line_of_bounded_length(text: str):
    assert all(len(said) <= STATEMENT_CHARS and "\n" not in said for said in statements(text))


def test_a_cut_falls_between_words_and_shows():
    assert shortened("one two three four", 12) == "one two…"
    assert shortened("x" * 20, 5) == "xxxx…"
    assert shortened("  one\n two ", 12) == "one two"


def test_texts_that_say_the_same_are_kept_once_in_the_first_wording():
    texts = ["The deploy failed on the token.", "Deploys failed on that token", "Postgres is slow."]
    assert distinct_texts(texts) == [texts[0], texts[2]]


def test_centrality_is_the_mean_frequency_of_the_terms():
    assert centrality([["a", "b"], ["a"], []]) == [1.5, 2.0, 0.0]
    assert centrality([["a", "b"], ["a"], []], at_least=4) == [0.75, 0.5, 0.0]


def test_the_leading_sentence_is_about_what_the_others_are_about():
    said = [
        ["Lunch was late again today.", "The queue lost its messages after the restart."],
        ["The queue restart lost three messages."],
    ]
    assert [sentence for _, sentence in leading(said)] == [said[0][1], said[1][0]]


def test_of_equally_good_ones_the_earlier_are_best_and_order_is_kept():
    assert best([1.0, 3.0, 1.0, 3.0], 3) == [0, 1, 3]
    assert best([1.0], 0) == []


@given(st.lists(st.text(max_size=9)), st.integers(0, 40))
def test_fitting_lines_stay_within_the_limit_when_joined(lines: list[str], limit: int):
    assert len(" ".join(fitting(lines, limit, " "))) <= limit


def test_a_number_that_ends_a_sentence_is_no_list_marker():
    assert statements("We shipped version v2. You must tag releases.") == [
        "We shipped version v2.",
        "You must tag releases.",
    ]
