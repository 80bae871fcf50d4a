"""Patterns of callers: searched in linear time, refused in words."""

import time

import pytest

from ingest.errors import CommandRejected
from ingest.patterns import MAX_PATTERN_CHARS, compiled, found_in

AGES = "a" * 100_000 + "!"


def test_case_does_not_count_and_a_match_may_be_anywhere():
    assert found_in("drop table", "psql -c 'DROP TABLE users'")
    assert found_in("ÄRGER", "viel ärger")
    assert not found_in("^drop", "psql -c 'drop table users'")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a+)+b", "(a|a)*b", "(.*a){20}b"])
def test_a_pattern_that_would_hang_a_backtracking_matcher_is_quick(pattern: str):
    """The budget is generous for a busy machine; backtracking would need longer than the universe has."""
    started = time.thread_time()
    assert not found_in(pattern, AGES)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize(
    "pattern", ["a(", "[z-a]", "*", "(?=a)b", "(?<!a)b", r"(a)\1", "a{5000}", r"\pL{900}", ".{900}", "\ud800"]
)
def test_a_pattern_that_cannot_be_used_is_refused_and_found_nowhere(pattern: str):
    with pytest.raises(CommandRejected, match="look-around and back-references are not supported") as refused:
        compiled(pattern)
    assert refused.value.field == "trigger_pattern"
    assert not found_in(pattern, "aab a( *")


def test_a_refusal_says_what_is_wrong():
    with pytest.raises(CommandRejected, match=r"missing \): a\("):
        compiled("a(")


def test_repetitions_that_multiply_are_refused():
    """Linear time is no comfort when every character costs ten thousand steps."""
    with pytest.raises(CommandRejected, match="steps a character; the limit is 2,000"):
        compiled("(a?b?){900}")


def test_the_longest_pattern_is_taken_and_a_longer_one_refused():
    assert found_in("a" * MAX_PATTERN_CHARS, AGES)
    with pytest.raises(CommandRejected, match="501 characters") as refused:
        compiled("a" * (MAX_PATTERN_CHARS + 1))
    assert refused.value.field == "trigger_pattern"


def test_a_refusal_is_silent(capfd: pytest.CaptureFixture[str]):
    """RE2 would write to stderr by itself."""
    assert not found_in("never seen before (", "x")
    assert capfd.readouterr() == ("", "")


def test_a_pattern_is_compiled_once():
    assert compiled("git push") is compiled("git push")


def test_text_with_half_a_surrogate_pair_is_searched():
    assert found_in("push", "git \ud800 push")
