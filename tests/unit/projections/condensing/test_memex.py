"""The summariser says what memex's own says."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.condensing.consolidation import summarise, summary_text
from projections.nouns.memory import without_prefix

MEMORIES = [
    "The deploy script failed because the token expired. We rotated the token and deployed again.",
    "The deploy script failed since the token expired.",
    "Postgres pool was set to twenty connections for the api service.",
    "Redis streams hold the event log for the memory service.",
    "The user asked for shorter answers in the terminal client.",
    "The token rotation job runs every night before the deploy window.",
    "Grafana shows the deploy latency for the api service.",
]
"""What memex's own function was given, to check against its answer."""

WORDS = st.sampled_from(["Redis", "token", "deploy", "latency", "worker", "to", "42", "a", "naïve", "night"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=9).map(lambda words: " ".join(words) + ".")
MEMORY_SENTENCES = st.lists(st.lists(SENTENCES, max_size=5), max_size=12)


def test_two_sentences_of_the_check_value():
    assert summarise(MEMORIES, 2) == (
        "The deploy script failed because the token expired. Grafana shows the deploy latency for the api service."
    )


def test_five_sentences_of_the_check_value():
    """The second memory is dropped, its Jaccard similarity to the first sentence being 0.75."""
    first = "The deploy script failed because the token expired."
    assert summarise(MEMORIES) == " ".join([first, *MEMORIES[3:]])


def test_as_many_sentences_as_asked_for_are_all_kept_in_order():
    assert summarise([MEMORIES[2], MEMORIES[3]], 2) == f"{MEMORIES[2]} {MEMORIES[3]}"


def test_without_sentences_the_first_five_memories_are_joined():
    assert summarise(["one", "two.", "", " four ", "five", "six"]) == "one. two.. .  four . five"
    assert summarise([]) == ""


def test_a_piece_of_twenty_characters_is_no_sentence():
    assert summarise(["x" * 20, "y" * 21]) == "y" * 21


def test_fifty_memories_that_are_alike_but_for_a_number_are_told_by_several_of_them():
    alike = [f"The deploy of release {n} took {n + 3} minutes and went well." for n in range(50)]
    assert summarise(alike) == " ".join(alike[n] for n in (0, 12, 24, 36, 49))
    assert summarise(["The deploy went well again today."] * 50) == "The deploy went well again today."
    assert summarise(alike[:3]) == " ".join(alike[:3])


def test_only_whole_words_of_ascii_letters_count():
    """Both sentences have no words, so neither matches the other and both are kept."""
    assert summarise(["1234 5678 ab cd 9012 3456", "1234 5678 ab cd 9012 3456"]) == " ".join(
        ["1234 5678 ab cd 9012 3456"] * 2
    )


def test_a_batch_of_the_longest_memories_is_summarised_within_seconds():
    memories = [
        " ".join(f"Service{n} number{place} spoke to worker{n * place % 97}." for place in range(200))[:8000]
        for n in range(50)
    ]
    started = time.thread_time()
    assert summarise(memories)
    assert time.thread_time() - started < 5


@given(MEMORY_SENTENCES, st.integers(1, 6))
def test_a_summary_is_a_few_sentences_of_the_input(memories: list[list[str]], max_sentences: int):
    long = {sentence for memory in memories for sentence in memory if len(sentence) > 20}
    texts = [" ".join(memory) for memory in memories]
    summary = summarise(texts, max_sentences)
    assert summary == summarise(list(texts), max_sentences)
    if long:
        found = [f"{sentence.strip()}." for sentence in summary.split(".")[:-1]]
        assert 1 <= len(found) <= max_sentences
        assert set(found) <= long


@given(st.integers(0, 10_000), st.text())
def test_the_prefix_can_be_taken_off_again(count: int, summary: str):
    assert without_prefix(summary_text(count, summary)) == summary


@pytest.mark.parametrize("content", ["", "plain", "[Summary of x memories] y", " [Summary of 2 memories] y"])
def test_content_without_the_prefix_is_unchanged(content: str):
    assert without_prefix(content) == content


def test_the_prefix_says_how_many_memories_it_stands_for():
    assert summary_text(50, "All is well.") == "[Summary of 50 memories] All is well."
