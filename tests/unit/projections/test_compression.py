"""An observation's short form follows from its words alone."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.compression import MAX_CONCEPTS, MAX_FACTS, MAX_FILES, VALID_TYPES, compress


def test_a_tool_call_is_titled_by_its_tool_and_narrated_by_input_and_output():
    short = compress(
        "post_tool_use", "", {"tool_name": "Edit", "tool_input": {"file_path": "a.py"}, "tool_output": "ok"}
    )
    assert (short.title, short.type, short.files) == ("Edit", "file_edit", ("a.py",))
    assert short.subtitle == '{"file_path":"a.py"}'
    assert short.narrative == '{"file_path":"a.py"} | ok'
    assert short.confidence == 0.3


def test_a_failed_call_is_an_error_told_by_its_error_text():
    short = compress("post_tool_failure", "", {"tool_name": "Bash", "tool_input": "make", "error": "exit 2"})
    assert (short.type, short.narrative, short.files) == ("error", "make | exit 2", ())


def test_a_prompt_is_a_conversation_titled_by_its_hook():
    short = compress("prompt_submit", "", {"prompt": "Fix parseConfig", "tool_name": "ignored here"})
    assert (short.title, short.type, short.narrative) == ("prompt_submit", "conversation", "Fix parseConfig")


def test_a_hook_without_prompt_or_tool_is_narrated_by_its_data():
    short = compress("notification", "", {"message": "needs permission"})
    assert (short.title, short.type) == ("notification", "notification")
    assert short.narrative == '{"message":"needs permission"}'


def test_the_hook_type_in_the_data_wins_over_the_kind():
    assert compress("note", "", {"hookType": "subagent_stop"}).type == "subagent"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("WebFetch", "web_fetch"),
        ("http_get", "web_fetch"),
        ("Grep", "search"),
        ("web_search", "web_fetch"),
        ("BashOutput", "command_run"),
        ("apply-patch", "file_edit"),
        ("MultiEdit", "file_edit"),
        ("TodoWrite", "file_write"),
        ("create_file", "file_write"),
        ("Read", "file_read"),
        ("Task", "subagent"),
        ("mystery", "other"),
    ],
)
def test_the_words_of_a_tool_name_give_the_type(tool: str, expected: str):
    assert compress("post_tool_use", "", {"tool_name": tool}).type == expected


@pytest.mark.parametrize("kind", sorted(VALID_TYPES))
def test_a_valid_kind_stays_the_type(kind: str):
    data = {} if kind == "notification" else {"tool_name": "Read"}
    assert compress(kind, "text", data).type == kind


def test_native_text_is_titled_by_its_first_sentence_or_line():
    assert compress("note", "We chose 3.11 now. Later more.").title == "We chose 3.11 now."
    assert compress("note", "\n first line\nsecond").title == "first line"
    assert compress("note", "x" * 100).title == "x" * 79 + "…"
    assert compress("", "").title == "observation"


def test_long_parts_are_cut_to_their_limit():
    short = compress("post_tool_use", "", {"tool_name": "t" * 81, "tool_input": "i" * 500})
    assert [len(short.title), len(short.subtitle or ""), len(short.narrative)] == [80, 120, 400]
    assert short.narrative == "i" * 399 + "…"


def test_files_are_found_in_text_and_data_in_order():
    text = "In src/app/main.py:12, then README.md and/or https://x.io/a.py; v1.2 (docs/a.md)."
    assert compress("note", text, {"at": {"where": "/etc/hosts"}}).files == (
        "src/app/main.py",
        "README.md",
        "docs/a.md",
        "/etc/hosts",
    )


def test_concepts_are_the_terms_a_reader_would_index():
    text = "The `write path` of event_log and parseConfig uses group-commit. We asked Alice Smith about #latency."
    assert compress("note", text).concepts == (
        "write path",
        "alice smith",
        "event_log",
        "parseconfig",
        "group-commit",
        "latency",
    )


def test_a_tools_name_and_ids_are_no_concepts():
    data = {
        "tool_name": "apply_patch",
        "tool_use_id": "toolu_01Abc",
        "tool_input": {"taskId": "task_77", "thread": {"id": "thr_1", "note": "Rename event_log"}},
        "sessionID": "ses_9",
        "tool_output": "parseConfig is kept, see f47ac10b-58cc-4372-a567-0e02b2c3d479",
    }
    assert compress("post_tool_use", "", data).concepts == ("event_log", "parseconfig")


def test_a_field_that_only_ends_like_an_id_is_read():
    assert compress("note", "", {"android": "group-commit", "paid": "parseConfig"}).concepts == (
        "group-commit",
        "parseconfig",
    )


def test_a_tools_name_that_its_text_speaks_of_is_a_concept():
    data = {"tool_name": "apply_patch", "tool_output": "apply_patch is deprecated"}
    assert compress("post_tool_use", "", data).concepts == ("apply_patch",)


def test_facts_are_sentences_that_state_something():
    text = "Hello there my friend. The limit is high. Is it 5? Port: 3111. Took 40 ms. We talked a lot."
    assert compress("note", text).facts == ("The limit is high.", "Port: 3111.", "Took 40 ms.")


def test_importance_orders_errors_over_notes_over_reads():
    error, note = compress("error", "boom").importance, compress("note", "hello").importance
    fix, read = compress("note", "fixed it").importance, compress("file_read", "fixed it").importance
    assert (error, fix, note, read) == (8, 6, 5, 4)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(alphabet=st.characters())),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
)
FIELDS = st.sampled_from(["tool_name", "tool_input", "tool_output", "error", "prompt", "hookType", "file_path", "x"])
WORDS = st.sampled_from(
    ["src/a.py", "`x y`", "#tag", "a_b", "camelCase", "Alice Smith", ". ", " is ", "=", "\n", "\ud800", "…"]
)


@given(
    st.text(), st.one_of(st.text(), st.lists(WORDS).map("".join)), st.none() | st.dictionaries(FIELDS, JSON, max_size=5)
)
def test_any_json_gives_a_bounded_short_form(kind: str, content: str, data: dict[str, Any] | None):
    short = compress(kind, content, data)
    assert short == compress(kind, content, data)
    assert short.title
    assert len(short.title) <= 80
    assert len(short.subtitle or "") <= 120
    assert len(short.narrative) <= 400
    assert short.type in VALID_TYPES
    assert 1 <= short.importance <= 10
    assert len(short.files) <= MAX_FILES
    assert len(short.concepts) <= MAX_CONCEPTS
    assert len(short.facts) <= MAX_FACTS


@pytest.mark.parametrize("value", [10**5000, float("nan"), b"\xff", object(), {1: 2}], ids=lambda v: type(v).__name__)
def test_what_json_cannot_say_is_no_reason_to_fail(value: Any):
    assert compress("note", "", {"tool_input": {"v": value}, "tool_name": "Read"}).title == "Read"


def test_deep_nesting_is_no_reason_to_fail():
    deep: Any = "x"
    for _ in range(10_000):
        deep = [deep]
    assert compress("note", "", {"tool_input": deep}).narrative.startswith("[[[")


@pytest.mark.parametrize("unit", ["a", "A", "Aa ", "a/", ".", "`", "a_", " ", ": ", "1"])
def test_no_text_takes_more_than_linear_time(unit: str):
    text = unit * (2**20 // len(unit))
    began = time.thread_time()
    compress(text, text, {"tool_name": text, "error": text})
    assert time.thread_time() - began < 2
