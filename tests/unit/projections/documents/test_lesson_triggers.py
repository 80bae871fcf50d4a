"""Lessons that speak up when a tool is about to be used."""

import pytest

from projections.documents.lessons import PREVIEW_CHARS, SEVERITIES, matches, severity_rank


@pytest.mark.parametrize(
    ("tool", "pattern", "expected"),
    [
        ("", "", True),
        ("Bash", "", True),
        ("bash", "", False),
        ("Edit", "", False),
        ("", "PUSH.*--force", True),
        ("Bash", "rebase", False),
        ("Edit", "push", False),
    ],
)
def test_a_lesson_is_about_a_call_when_its_tool_and_its_pattern_are(tool: str, pattern: str, expected: bool):
    assert matches(tool, pattern, "Bash", "git push --force") is expected


def test_a_stored_pattern_that_does_not_compile_matches_nothing():
    assert not matches("", "(", "Bash", "(")


def test_a_preview_is_searched_as_far_as_hooks_send_it():
    assert matches("", "end", "Bash", "end".rjust(PREVIEW_CHARS))
    assert not matches("", "end", "Bash", "end".rjust(PREVIEW_CHARS + 1))


def test_critical_comes_first_and_an_unknown_severity_last():
    assert sorted(["odd", "info", "critical", "warning"], key=severity_rank) == [*SEVERITIES, "odd"]
