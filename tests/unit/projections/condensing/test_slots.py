"""Reflection adds what is new to the slots and leaves the rest alone."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from condensing import asked, called, saw
from hypothesis import given
from hypothesis import strategies as st

from projections.condensing.slots import CONTEXT, PATTERNS, PENDING, contributed, reflect, without
from projections.nouns.observation import Observation
from projections.nouns.slot import Slot


def held(content: str, size_limit: int) -> Slot:
    return Slot(content=content, size_limit=size_limit)


NOW = datetime(2026, 1, 31, 13, 0, tzinfo=timezone(timedelta(hours=1)))
EMPTY = {label: held("", 2000) for label in (PENDING, PATTERNS, CONTEXT)}


def test_nothing_to_say_changes_nothing():
    assert reflect([saw(0, "All is well.")], EMPTY, NOW) == {}
    assert reflect([], EMPTY, NOW) == {}


def test_a_todo_becomes_a_pending_line_once():
    seen = [saw(0, "Looked around.\nTODO: rotate the token"), saw(1, "todo: rotate  the token")]
    slots = {PENDING: held("- call ops", 2000)}
    assert reflect(seen, slots, NOW) == {PENDING: "- call ops\n- TODO: rotate the token"}


def test_reflecting_again_adds_no_line():
    seen = [saw(0, "TODO: rotate the token")]
    first = reflect(seen, EMPTY, NOW)
    assert reflect(seen, {PENDING: held(first[PENDING], 2000)}, NOW) == {}


def test_the_open_items_of_a_todo_tool_are_pending():
    todos = [{"content": "write docs", "status": "pending"}, {"content": "fix it", "status": "completed"}]
    assert reflect([called(0, "TodoWrite", {"todos": todos})], {PENDING: EMPTY[PENDING]}, NOW) == {
        PENDING: "- write docs"
    }


def test_a_todo_of_a_turn_that_was_reported_as_a_call_is_pending():
    seen = [called(0, "conversation", "todo: rotate the token", output="Rotated.")]
    assert reflect(seen, {PENDING: EMPTY[PENDING]}, NOW) == {PENDING: "- todo: rotate the token"}


def test_a_todo_in_what_a_tool_read_is_not_pending():
    seen = [called(0, "Read", {"file_path": "src/a.py"}, output="1: # TODO rename this")]
    assert reflect(seen, {PENDING: EMPTY[PENDING]}, NOW) == {}


def test_a_todo_in_an_output_that_was_recorded_as_text_is_not_pending_but_goes_if_it_was():
    seen = [saw(0, "1: # TODO rename this", "result", role="tool_result")]
    assert reflect(seen, {PENDING: EMPTY[PENDING]}, NOW) == {}
    assert without(PENDING, "- 1: # TODO rename this\n- b", contributed(seen)[PENDING]) == "- b"


def test_on_overflow_the_newest_lines_are_kept_whole():
    slots = {PENDING: held("- first\n- second", 24)}
    assert reflect([saw(0, "todo: third")], slots, NOW) == {PENDING: "- second\n- todo: third"}


def test_a_line_longer_than_the_slot_keeps_its_end():
    assert reflect([saw(0, "todo: third")], {PENDING: held("- a", 5)}, NOW) == {PENDING: "third"}


def test_counts_replace_the_session_patterns_and_begin_with_the_time_in_utc():
    seen = [
        called(0, "Bash", {"command": "make"}),
        called(1, "Bash", {"command": "make"}, error="no"),
        called(2, "Bash", {"command": "ls"}),
    ]
    assert reflect(seen, {PATTERNS: held("old", 1500)}, NOW) == {
        PATTERNS: "2026-01-31T12:00:00Z: 1 error, 2 command_run"
    }


def edited(n: int, *files: str) -> Observation:
    return called(n, "Edit", {"file_path": files[0]}) if len(files) == 1 else saw(n, "x", "file_write", files=files)


def test_the_project_context_names_the_files_changed_last_and_no_others():
    seen = [edited(0, "a.py"), called(1, "Read", {"file_path": "r.py"}), *(edited(n, f"{n}.py") for n in range(2, 50))]
    slots = {CONTEXT: held("Uses Redis.\n- r.py\nChanged last: old.py\n- note", 3000)}
    assert reflect(seen, slots, NOW) == {CONTEXT: "Uses Redis.\n- note\nChanged last: 49.py, 48.py, 47.py"}
    assert reflect(seen[:2], {CONTEXT: held("Changed last: a.py", 3000)}, NOW) == {}
    assert reflect(seen[1:2], {CONTEXT: held("Changed last: r.py", 3000)}, NOW) == {}


@pytest.mark.parametrize(
    ("prompt", "rules"),
    [
        (
            "Fix the login test. Always freeze the clock in tests of tokens.",
            ["Always freeze the clock in tests of tokens."],
        ),
        (
            "a repeated key must give back the first sale with 200",
            ["a repeated key must give back the first sale with 200"],
        ),
        ("Never push to the main branch of this repo.", ["Never push to the main branch of this repo."]),
        ("so when it times out we must send a reversal then", []),
        ("It must always be like that, as I said.", []),
        ("You must sign.", []),
        ("why is the pool always full at night?", []),
        ("<note>Always answer in the language of the user please.</note>", []),
    ],
)
def test_a_rule_that_a_user_states_while_work_is_done_joins_the_project_context(prompt: str, rules: list[str]):
    context = {CONTEXT: EMPTY[CONTEXT]}
    told = reflect([asked(0, prompt), called(1, "Read", {"file_path": "a.py"})], context, NOW)
    assert told.get(CONTEXT, "").splitlines() == [f"- {rule}" for rule in rules]
    imported = saw(0, kind="prompt_submit", data={"prompt": prompt}, trust="imported")
    assert reflect([imported, called(1, "Read", {"file_path": "a.py"})], context, NOW) == {}
    assert reflect([asked(0, prompt)], context, NOW) == {}  # in a talk without work it may be about a person's case


def test_the_project_context_stays_short():
    prompts = [asked(n, f"The service number {n} must never be restarted by hand.") for n in range(9)]
    seen, content = [*prompts, called(9, "Read", {"file_path": "a.py"})], ""
    for _ in range(9):
        content = reflect(seen, {CONTEXT: held(content, 3000)}, NOW).get(CONTEXT, content)
    assert 3 < len(content.splitlines()) <= 12


def test_what_an_observation_added_to_the_project_context_goes_with_it():
    seen = [asked(0, "Never push to the main branch of this repo."), edited(1, "a.py"), edited(2, "b.py")]
    content = reflect(seen, {CONTEXT: held("Uses Redis.", 3000)}, NOW)[CONTEXT]
    assert without(CONTEXT, content, contributed(seen[:1])[CONTEXT]) == "Uses Redis.\nChanged last: b.py, a.py"
    assert without(CONTEXT, content, contributed(seen[1:2])[CONTEXT]) == f"Uses Redis.\n- {seen[0].data['prompt']}"
    assert without(CONTEXT, "- a.py\nb", contributed(seen[1:2])[CONTEXT]) == "b"  # as earlier releases wrote it


def test_a_slot_that_does_not_exist_is_not_written():
    assert reflect([saw(0, "todo: read src/a.py"), called(1, "Bash", {"command": "x"})], {}, NOW) == {}


@given(st.lists(st.text(max_size=50).map("todo {}".format), max_size=8), st.text(max_size=60), st.integers(0, 60))
def test_no_slot_outgrows_its_limit(contents: list[str], old: str, size_limit: int):
    seen = [saw(n, content, files=(content,)) for n, content in enumerate(contents)]
    slots = {label: held(old[:size_limit], size_limit) for label in (PENDING, PATTERNS, CONTEXT)}
    changed = reflect(seen, slots, NOW.astimezone(UTC))
    assert all(len(content) <= size_limit for content in changed.values())
    assert all(content != slots[label].content for label, content in changed.items())
