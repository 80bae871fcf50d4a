"""Reflection adds what is new to the slots and leaves the rest alone."""

from datetime import UTC, datetime, timedelta, timezone

from condensing import called, saw
from hypothesis import given
from hypothesis import strategies as st

from projections.condensing.slots import CONTEXT, NEW_FILES, PATTERNS, PENDING, reflect
from projections.documents.slots import Slot


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


def test_a_todo_in_what_a_tool_read_is_not_pending():
    seen = [called(0, "Read", {"file_path": "src/a.py"}, output="1: # TODO rename this")]
    assert reflect(seen, {PENDING: EMPTY[PENDING]}, NOW) == {}


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


def test_new_files_join_the_project_context_until_it_is_full():
    seen = [saw(0, "x", files=("data.py", "a.py", "b.py"))]
    slots = {CONTEXT: held("Uses Redis.\n- data.py", 32)}
    assert reflect(seen, slots, NOW) == {CONTEXT: "Uses Redis.\n- data.py\n- a.py"}


def test_a_name_within_another_is_still_new():
    assert reflect([saw(0, "x", files=("a.py",))], {CONTEXT: held("- data.py", 99)}, NOW) == {
        CONTEXT: "- data.py\n- a.py"
    }


def test_at_most_twenty_files_are_added_at_a_time():
    seen = [saw(n, "x", files=(f"f{n}.py",)) for n in range(30)]
    assert reflect(seen, EMPTY, NOW)[CONTEXT].count("\n") == NEW_FILES - 1


def test_a_slot_that_does_not_exist_is_not_written():
    assert reflect([saw(0, "todo: read src/a.py"), called(1, "Bash", {"command": "x"})], {}, NOW) == {}


@given(st.lists(st.text(max_size=50).map("todo {}".format), max_size=8), st.text(max_size=60), st.integers(0, 60))
def test_no_slot_outgrows_its_limit(contents: list[str], old: str, size_limit: int):
    seen = [saw(n, content, files=(content,)) for n, content in enumerate(contents)]
    slots = {label: held(old[:size_limit], size_limit) for label in (PENDING, PATTERNS, CONTEXT)}
    changed = reflect(seen, slots, NOW.astimezone(UTC))
    assert all(len(content) <= size_limit for content in changed.values())
    assert all(content != slots[label].content for label, content in changed.items())
