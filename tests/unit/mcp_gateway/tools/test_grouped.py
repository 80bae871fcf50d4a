"""Results by session, a line each."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from factories import NOW

from mcp_gateway.tools.grouped import AT_LENGTH, SHORT_CHARS, fitting_lines, grouped, lines_of, lines_within, text_of
from mcp_gateway.tools.recalled_document import RecalledDocument
from projections.text.tokens import estimated_tokens


def found(name: str, text: str, **fields: Any) -> RecalledDocument:
    """A recalled turn of session s1; every field has a default."""
    usual: dict[str, Any] = {"kind": "observation", "title": "", "occurred_at": NOW, "session_id": "s1"}
    return RecalledDocument(id=name, snippet=text, **{**usual, **fields})


def told(*results: RecalledDocument) -> list[str]:
    return [*grouped(lines_of(results))]


def test_turns_of_a_session_are_under_one_heading_where_its_best_is():
    results = [found("obs_1", "a"), found("obs_2", "b", session_id="s2"), found("obs_3", "c")]
    assert told(*results) == ["2026-01-31, session s1", "obs_1 a", "obs_3 c", "2026-01-31, session s2", "obs_2 b"]


def test_memories_and_lessons_are_under_one_heading_with_their_dates():
    memory = found("mem_1", "a", kind="memory", session_id="")
    lesson = found("lsn_1", "b", kind="lesson", session_id="", occurred_at=NOW + timedelta(days=1))
    assert told(memory, lesson) == ["Memories and lessons", "mem_1 (2026-01-31) a", "lsn_1 (2026-02-01) b"]


def test_the_author_is_told_once_if_a_session_has_one():
    assert told(found("obs_1", "a", agent_id="ada"), found("obs_2", "b", agent_id="ada")) == [
        "2026-01-31, session s1, by ada", "obs_1 a", "obs_2 b",
    ]  # fmt: skip
    assert told(found("obs_1", "Ada: a", agent_id="ada"), found("obs_2", "b", agent_id="bob")) == [
        "2026-01-31, session s1", "obs_1 Ada: a", "obs_2 bob: b",
    ]  # fmt: skip


def test_equal_texts_are_one_line_with_their_number():
    assert told(*(found(f"obs_{n}", "pytest FAILED") for n in range(3))) == [
        "2026-01-31, session s1", "obs_0 pytest FAILED (3 times)",
    ]  # fmt: skip


def test_a_replaced_result_comes_right_after_the_one_that_replaces_it():
    before = found("obs_1", "port 80", session_id="s1", superseded_by="obs_3")
    other, now = found("obs_2", "other", session_id="s2"), found("obs_3", "port 90", session_id="s2")
    assert told(other, now, before) == [
        "2026-01-31, session s2", "obs_2 other", "obs_3 port 90",
        "obs_1 (2026-01-31) port 80 (probably replaced by obs_3)",
    ]  # fmt: skip


def test_whole_ids_are_shortened_and_other_names_stay():
    assert told(found("obs_" + 20 * "a", "x"), found("obs_imported", "y"))[1:] == ["obs_aaaaaaa x", "obs_imported y"]


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"confirmed": 2}, "confirmed 2x"),
        ({"changed_since": ["a.py changed once since"]}, "a.py changed once since"),
        ({"valid_until": datetime(2026, 3, 1, 12, 0)}, "valid until 2026-03-01 12:00 UTC"),
        ({"trust": "external"}, "external"),
    ],
)
def test_a_line_ends_with_what_a_reader_must_know(fields: dict[str, Any], remark: str):
    assert told(found("obs_1", "x", **fields))[1] == f"obs_1 x ({remark})"


@pytest.mark.parametrize(
    ("title", "text", "line"),
    [
        ("Tea", "Ada drinks it.", "Tea: Ada drinks it."),
        ("Ada drinks tea.", "Ada drinks tea. With milk.", "Ada drinks tea. With milk."),
        ("Hey!", "We deploy on Tuesdays.", "We deploy on Tuesdays."),
        ("Edit deploy/staging.env", "PORT=8080 PORT=8090 deploy/staging.env", "PORT=8080 PORT=8090 deploy/staging.env"),
        ("Ada drinks tea.", "", "Ada drinks tea."),
        ("", "a\n b", "a b"),
    ],
)
def test_a_title_is_told_only_if_it_says_more(title: str, text: str, line: str):
    assert text_of(title, text) == line


def test_lines_fit_with_their_headings_and_a_shorter_one_takes_the_place_of_a_longer_one():
    results = [found("obs_1", "x" * 40), found("obs_2", "y" * 400), found("obs_3", "z" * 40, session_id="s2")]
    lines = fitting_lines(lines_of(results), 40)
    assert [line.id for line in lines] == ["obs_1", "obs_3"]
    assert sum(estimated_tokens(f"{line}\n") for line in grouped(lines)) <= 40


BESIDE = "Nobody knew at first why it had failed, and logs were read. "
LONG = f"The deploy failed at noon. {4 * BESIDE}The port was 8090."


def test_whole_texts_are_shown_if_all_of_them_fit():
    (line,) = lines_within([found("obs_1", "The port was 8090.")], [LONG], "which port?", 200)
    assert line.text == " ".join(LONG.split())


def test_snippets_are_shown_where_the_texts_do_not_fit():
    (line,) = lines_within([found("obs_1", "The port was 8090.", title="Deploy")], [LONG], "which port?", 40)
    assert line.text == "Deploy: The port was 8090."


def test_where_not_all_snippets_fit_those_after_the_first_few_are_short_and_say_most_of_the_query():
    results = [found(f"obs_{n}", f"{n} {LONG}", title="Deploy of the shop") for n in range(8)]
    texts = [line.text for line in lines_within(results, [""] * 8, "which port?", 500)]
    assert len(texts) > AT_LENGTH
    assert all(text.endswith("The port was 8090.") for text in texts)
    assert all(len(text) > 200 for text in texts[:AT_LENGTH])
    assert all(len(text) <= SHORT_CHARS for text in texts[AT_LENGTH:])


@pytest.mark.parametrize(
    ("text", "content"),
    [("…FAIL checkout: expected port 8090", "PASS a PASS a PASS"), ("The port is 8090.", "Work on the shop went on.")],
)
def test_a_snippet_of_other_fields_than_the_content_stays(text: str, content: str):
    """Of a tool call's output, for example, of which the content is a summary."""
    (line,) = lines_within([found("obs_1", text)], [content], "which port?", 200)
    assert line.text == text


def test_different_results_with_the_same_beginning_are_separate_lines():
    results = [found(f"obs_{n}", f"{10 * 'the same words '}{n}", title=f"host-{n}") for n in range(AT_LENGTH + 3)]
    assert len([*grouped(lines_of(results, "words"))]) == len(results) + 1


def test_a_short_line_of_a_result_without_a_snippet_is_its_title():
    results = [found(f"obs_{n}", "", title=f"title {n}") for n in range(AT_LENGTH + 1)]
    assert lines_of(results, "title")[AT_LENGTH].text == f"title {AT_LENGTH}"
