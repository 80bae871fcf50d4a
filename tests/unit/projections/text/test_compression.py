"""An observation's short form follows from its words alone."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.text.compression import VALID_TYPES, Compressed, compress
from projections.text.words import MAX_CONCEPTS, MAX_FACTS, MAX_FILES


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


def test_a_valid_kind_stays_the_type():
    for kind in VALID_TYPES:
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


def test_a_tools_name_is_no_concept_where_its_output_speaks_of_it():
    data = {"tool_name": "apply_patch", "tool_output": "apply_patch changed event_log"}
    assert compress("post_tool_use", "", data).concepts == ("event_log",)


def test_facts_are_sentences_that_state_something():
    text = "Hello there my friend. The limit is high. Is it 5? Port: 3111. Took 40 ms. We talked a lot."
    assert compress("note", text).narrative == text
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


RESPONSE = {
    "filePath": "/srv/shop/pay.py",
    "oldString": "retries = 1",
    "newString": "The retry_limit is 5.\nBackoff took 40 ms.",
    "originalFile": "import group-commit",
    "isImage": False,
    "noOutputExpected": False,
    "structuredPatch": [{"oldStart": 1, "lines": ["-retries = 1", "+retries = 5"]}],
}
KEYS = {
    "filepath",
    "oldstring",
    "newstring",
    "originalfile",
    "isimage",
    "nooutputexpected",
    "structuredpatch",
    "oldstart",
}
TEXT = json.dumps(RESPONSE)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
PNG_URL = f"data:image/png;base64,{PNG}"


def derived(short: Compressed) -> tuple[str, ...]:
    return (*short.concepts, *short.facts, *short.files)


def is_free_of_json(short: Compressed) -> bool:
    """Whether no key of RESPONSE, and no syntax of JSON, is in what was derived."""
    return not any(one.lower() in KEYS or '":' in one or one.startswith(("{", '["')) for one in derived(short))


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(RESPONSE, indent=2),
        json.dumps(TEXT),
        json.dumps(json.dumps(TEXT)),
        json.dumps({"stdout": TEXT, "interrupted": False}),
        json.dumps([{"type": "text", "text": TEXT}]),
        f"Done: {TEXT} and that is all.",
        f"{TEXT}\n{TEXT}",
        TEXT.replace('"', '\\"'),
        f"{TEXT[:150]}… [cut]",
        f"{TEXT}\n[...truncated]",
        str(RESPONSE),
    ],
)
def test_the_keys_of_json_text_are_nothing_that_was_said(text: str):
    for data in ({"tool_name": "Edit", "tool_output": text}, {"tool_name": "Edit", "tool_input": text}, {"x": text}):
        assert is_free_of_json(compress("post_tool_use", "", data))
    assert is_free_of_json(compress("note", text))


@pytest.mark.parametrize("text", [TEXT, json.dumps({"stdout": TEXT}), json.dumps(RESPONSE, indent=1)])
def test_json_text_that_is_cut_anywhere_says_no_key(text: str):
    for place in range(len(text)):
        assert is_free_of_json(compress("note", text[:place])), text[:place]
        assert is_free_of_json(compress("note", text[place:])), text[place:]


def test_the_values_of_json_text_are_what_was_said():
    short = compress("post_tool_use", "", {"tool_name": "Edit", "tool_output": json.dumps({"stdout": TEXT})})
    assert short.facts == (
        "retries = 1",
        "The retry_limit is 5.",
        "Backoff took 40 ms.",
    )
    assert short.concepts == ("retry_limit", "group-commit")
    assert short.files == ("/srv/shop/pay.py",)


def test_a_tools_input_as_json_text_names_its_file():
    given = json.dumps({"file_path": "src/a.py", "content": "x"})
    assert compress("post_tool_failure", "", {"tool_name": "Write", "tool_input": given}).files == ("src/a.py",)
    assert compress("post_tool_failure", "", {"tool_name": "Write", "tool_input": given[:-8]}).files == ("src/a.py",)


def test_a_native_observation_of_json_text_is_titled_by_its_first_value():
    assert compress("note", json.dumps({"note": "The cache is cold. Really."})).title == "The cache is cold."
    assert compress("note", "[1, 2, 3]").title == "note"


def test_prose_with_quotes_and_brackets_stays_as_it_is():
    text = 'He said "the limit is 5". See [1] and {name}. [INFO] Server took 40 ms.'
    assert compress("note", text).narrative == text
    assert compress("note", text).facts == (
        'He said "the limit is 5".',
        "See [1] and {name}.",
        "[INFO] Server took 40 ms.",
    )


@pytest.mark.parametrize(
    "tool_input",
    [
        {"pattern": "parse_config", "path": "src", "glob": "*.ts"},
        {"pattern": "**/*.tsx"},
        {"pattern": "src/app/**/x.py", "path": "**/src"},
        {"pattern": r"foo.*\.py$", "output_mode": "files_with_matches", "-n": True},
        {"path": "https://x.io/a.py", "pattern": "a.py"},
        {"file_path": "--version"},
        {"path": "."},
    ],
)
def test_patterns_flags_and_urls_are_no_files(tool_input: dict[str, Any]):
    short = compress("post_tool_use", "", {"tool_name": "Grep", "tool_input": tool_input, "tool_output": "none"})
    assert short.files in ((), ("src",))
    assert short.concepts == ()


@pytest.mark.parametrize(
    "text",
    [
        "src/**/*.ts or src/app/**/x.ts and *.py",
        "`src/{a,b}/c.py`",
        r"foo/.*\.py$ and ^src/app/x.py",
        "s/foo/bar/g",
        "https://x.io/a(b)/c.py?x=src/q.py",
        "see www.x.io/docs/a.html or github.com/a/b/c.py or localhost:3111/v1/a.json",
        "-Isrc/a.h --include=*.py",
        "image/png application/json text/html",
        "Read/Write/Edit",
        "<div><b>x</b></div></my-tag>",
        "-//W3C//DTD XHTML 1.0 Transitional//EN ///DONE///",
        f"/9j/4AAQSkZJRgABAQ{'A' * 40}",
    ],
)
def test_what_only_looks_like_a_path_is_no_file(text: str):
    assert compress("note", text).files == ()


def test_a_file_is_found_in_bold_after_a_flag_and_before_a_question_mark():
    assert compress("note", "**docs/b.md** --config=conf/a.toml, is it a.py?").files == (
        "docs/b.md",
        "conf/a.toml",
        "a.py",
    )


@pytest.mark.parametrize(
    "text",
    [
        PNG_URL,
        PNG,
        f"![Screenshot of 5 errors]({PNG_URL})",
        f"<img alt='was 5 wide' src=\"{PNG_URL}\" title='x is 5'>",
        "data:image/gif;base64,R0lGODlhAQABAAAAACw=",
        "data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg' width='5'><text>x is 5</text></svg>",
        "data:text/plain,the_limit%20is%205",
        "DATA:IMAGE/PNG;BASE64,iVBORw0KGgo=",
        f"[image sha256-{'a' * 64}.png: 92 characters of base64, not kept]",
        "[9,000 characters of base64]",
        "[image/png, 68 bytes]",
    ],
)
def test_embedded_data_says_nothing(text: str):
    for short in (
        compress("note", text),
        compress("note", f"Before {text} after"),
        compress("post_tool_use", "", {"tool_name": "Read", "tool_output": text}),
        compress("post_tool_use", "", {"tool_name": "Read", "tool_output": json.dumps({"source": {"data": text}})}),
    ):
        assert derived(short) == ()
        assert ";base64," not in (short.title + short.narrative).lower()


def test_a_data_url_of_any_size_is_named_by_its_type_and_size():
    assert compress("note", f"See {PNG_URL} here").narrative == "See [image/png, 68 bytes] here"
    big = f"data:image/jpeg;base64,{base64.b64encode(bytes(3_000_000)).decode()}"
    hook = compress("post_tool_use", "", {"tool_name": "Shot", "tool_input": {"url": big}, "tool_output": big})
    assert hook.narrative == '{"url":"[image/jpeg, 3,000,000 bytes]"} | [image/jpeg, 3,000,000 bytes]'
    assert hook.subtitle == '{"url":"[image/jpeg, 3,000,000 bytes]"}'


KEY = st.sampled_from(
    ["filePath", "old_string", "is-image", "Alice Smith", "src/a.py", "README.md", "#tag", "`x y`", "x1"]
)
VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(st.characters(exclude_characters="\"'"), max_size=20),
        st.sampled_from(
            ["The limit is 5.", "src/b.py", "see parseConfig", PNG_URL, f"![x is 5]({PNG_URL})", 'a\\"b\\n', "\u2028"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEY, inner, max_size=3),
        st.dictionaries(KEY, inner, max_size=3).map(json.dumps),
        st.dictionaries(KEY, inner, max_size=3).map(json.dumps).map(json.dumps),
    ),
    max_leaves=12,
)
NAMES = (
    "filepath",
    "old_string",
    "is-image",
    "alice smith",
    "src/a.py",
    "readme.md",
    "tag",
    "x y",
    "some_tool",
    "a_.*b/c.py",
)


@given(
    st.dictionaries(KEY, VALUE, max_size=4),
    st.sampled_from(["object", "text", "twice", "content"]),
    st.integers(0, 400),
    st.sampled_from(["tool_input", "tool_output"]),
)
def test_no_key_tool_pattern_or_data_url_is_ever_derived(payload: dict[str, Any], form: str, end: int, field: str):
    text = json.dumps(payload)
    told: Any = {"object": payload, "text": text, "twice": json.dumps(text)}.get(form, text)
    if form != "object":
        told = told[: len(told) - end] if end < len(told) else told
    if form == "content":
        short = compress("note", told)
    else:
        data = {"tool_name": "some_tool", field: told}
        if field == "tool_output":
            data["tool_input"] = {"pattern": "a_.*b/c.py", "glob": "src/**"}
        short = compress("post_tool_use", "", data)
    met = {name for name in NAMES if name in text.lower() or name in ("some_tool", "a_.*b/c.py", "src/**")}
    for one in derived(short):
        assert one.lower() not in met
        assert "base64," not in one
        assert "bytes]" not in one
        assert '":' not in one


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("prompt", "user"),
        ("prompt_submit", "user"),
        ("message", "assistant"),
        ("tool_use", "tool_call"),
        ("post_tool_use", "tool_call"),
        ("result", "tool_result"),
        ("decision", ""),
        ("", ""),
    ],
)
def test_the_kind_tells_who_said_it(kind: str, role: str):
    assert compress(kind, "Something was said.").role == role
