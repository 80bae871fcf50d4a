"""What a project is like."""

import json
from datetime import timedelta
from typing import Any

import pytest
from factories import NOW, PROJECT, TENANT, minute

from ingest.ids import DocumentId
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.queries.profile import Profile, conventions, profile


def seen(n: int, **fields: Any) -> Observation:
    """An observation n minutes after NOW, in session `s1` unless said otherwise."""
    given: dict[str, Any] = {"session": DocumentId("s1"), "title": f"title {n}", "occurred_at": minute(n), **fields}
    return Observation(
        id=DocumentId(f"obs_{n:03}"), event_id=f"o{n}", tenant=TENANT, recorded_at=NOW, position=f"{n}-0", **given
    )


def kept(n: int, content: str, **fields: Any) -> Memory:
    """A memory recorded n minutes after NOW."""
    given: dict[str, Any] = {"recorded_at": minute(n), "updated_at": minute(n), **fields}
    return Memory(
        id=DocumentId(f"mem_{n}"),
        event_id=f"m{n}",
        tenant=TENANT,
        content=content,
        occurred_at=NOW,
        position="1-0",
        **given,
    )


def told(*observations: Observation, memories: tuple[Memory, ...] = (), user_id: str = "") -> Profile:
    found = profile(PROJECT, user_id, 1, observations, memories, NOW)
    assert found
    return found


def test_of_nothing_there_is_no_profile():
    assert profile(PROJECT, "", 0, [], [], NOW) is None


def test_a_profile_of_empty_sessions_is_empty():
    assert profile(PROJECT, "bea", 3, [], [], NOW) == Profile(
        project=PROJECT,
        user_id="bea",
        session_count=3,
        total_observations=0,
        concepts=[],
        files=[],
        conventions=[],
        errors=[],
        recent_activity=[],
        preferences=[],
        updated_at=NOW,
    )


def test_topics_and_files_that_were_changed_twice_are_counted_and_equal_counts_go_by_name():
    said = "The pool and the queue share a cache."
    found = told(
        seen(1, content=said, concepts=("queue", "pool")),
        seen(2, content=said, concepts=("cache", "cache", "queue")),
        seen(3, content=said, concepts=("pool",)),
    )
    assert found.concepts == [("pool", 2), ("queue", 2)]
    edits = [
        seen(n, kind="file_edit", files=(name,)) for n, name in enumerate(["x.py", "b.py", "x.py", "b.py", "c.py"])
    ]
    read = [seen(n, kind=kind, files=("r.py",)) for n, kind in enumerate(["file_read", "search", "file_write"])]
    assert told(*edits, *read).files == [("b.py", 2), ("x.py", 2)]
    assert told(*read).files == [("r.py", 1)]


def test_fifteen_topics_are_enough():
    topics = [f"{letter}{letter}" for letter in "abcdefghijklmnopqrst"]
    some = [seen(n, content=f"There is {', '.join(topics)}.", concepts=tuple(topics)) for n in range(2)]
    assert len(told(*some).concepts) == 15


@pytest.mark.parametrize("concept", ["reservation_id", "en-us", "http-equiv", "m20izo", "PixelData", "todo the"])
def test_identifiers_markup_and_what_no_sentence_says_are_no_concepts(concept: str):
    some = [seen(n, content=f'<meta {concept}="x">', concepts=(concept.lower(),)) for n in range(3)]
    assert told(*some).concepts == []


def test_counts_are_of_the_project_and_not_of_the_observations_that_were_read():
    found = profile(PROJECT, "", 50, [seen(1)], [], NOW, total_observations=900)
    assert found
    assert (found.session_count, found.total_observations) == (50, 900)


def test_what_one_talk_says_of_its_case_is_no_concept_of_the_project():
    """Unless another session says it, or something was read, written or run in it."""
    said = {"content": "The booking of Ivan Smith is confirmed.", "concepts": ("ivan smith",)}
    talk = [seen(1, turn="user", content="Please confirm it."), seen(2, **said), seen(3, **said)]
    assert told(*talk).concepts == []
    assert told(*talk, seen(4, **said, session=DocumentId("s2"))).concepts == [("ivan smith", 3)]
    assert told(*talk, seen(4, kind="command_run")).concepts == [("ivan smith", 2)]


def test_errors_are_distinct_and_newest_first():
    errors = [seen(n, kind="error", title=f"E{n % 12}") for n in range(24)]
    assert told(*errors, seen(30)).errors == [f"E{n}" for n in range(11, 1, -1)]


SUMMARY = "== short test summary info ==\nFAILED tests/test_slots.py::test_x - assert 3...\n1 failed, 2 passed in 0.1s"
TRACEBACK = "Traceback (most recent call last):\n  File 'a.py', line 3\nKeyError: 'retries'\n\nexit code 1"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"error": TRACEBACK}, ["KeyError: 'retries'"]),
        ({"error": "Exit code 2\nmake: *** [all] Error 2\ndone"}, ["make: *** [all] Error 2"]),
        ({"error": json.dumps({"error": {"message": "No such file: a.py", "code": 2}})}, ["No such file: a.py"]),
        ({"tool_output": "segmentation violation"}, ["segmentation violation"]),
        ({"error": {"stderr": "permission denied"}}, ["permission denied"]),
        ({"tool_input": {"command": "make"}}, []),
        ({"tool_output": "export const App = () => null"}, []),
        ({"error": ""}, []),
        ({"error": "===== FAILURES =====\n____ test_x ____\nE   assert 3 == 4\n== 1 failed =="}, ["assert 3 == 4"]),
        ({"error": f"E   assert 3 == 4\n{SUMMARY}"}, ["tests/test_slots.py::test_x: assert 3 == 4"]),
        (
            {"error": "--- FAIL: TestSum (0.03s)\n    sum_test.go:41: got 0, want 7\nFAIL"},
            ["TestSum: sum_test.go:41: got 0, want 7"],
        ),
        (
            {"error": "lint...Failed\na.py:14: error: Name 's' is not defined"},
            ["a.py:14: error: Name 's' is not defined"],
        ),
    ],
)
def test_an_error_of_a_tool_is_what_went_wrong_and_not_the_tool(data: dict[str, Any], expected: list[str]):
    failed = seen(1, kind="error", title="Bash", data={"tool_name": "Bash", **data})
    assert told(failed).errors == expected


def ran(n: int, command: str, output: str = "", session: str = "s1") -> Observation:
    data = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_output": {"stdout": output}}
    return seen(n, kind="command_run", data=data, session=DocumentId(session))


FAILED, PASSED = "FAILED tests/test_a.py::test_x - assert 3 == 4\n1 failed in 0.1s", "1 passed in 0.1s"
TEST = "cd /app && uv run pytest tests/test_a.py -q 2>&1 | tail -3"


@pytest.mark.parametrize(
    ("later", "stands"),
    [
        ([], True),
        ([ran(2, TEST, FAILED)], True),
        ([ran(2, "git commit -qam done", "1 file changed")], True),
        ([ran(2, "uv run pytest tests/test_b.py", PASSED)], True),  # nothing was changed
        ([ran(2, "uv run pytest tests/test_a.py", PASSED, "s2")], False),  # the same test
        ([ran(2, "make build && uv run pytest -x tests/test_a.py | tail -1", PASSED)], False),
        ([ran(2, "uv run pytest -q", PASSED, "s2")], False),  # all tests
        ([seen(2, kind="file_edit"), ran(3, "make test", PASSED)], False),
        ([ran(2, "sed -i s/3/4/ a.py && make test", PASSED)], False),
        ([seen(2, kind="file_edit"), ran(3, "npx vitest run", PASSED, "s2")], True),  # another session, another test
        ([seen(2, kind="file_edit"), ran(3, "uv run pytest tests/test_b.py", PASSED, "s2")], False),
        ([seen(2, kind="file_edit"), ran(3, "cat test.log", PASSED)], True),
    ],
)
def test_an_error_ends_with_the_same_run_that_passes_or_an_edit_and_a_passing_test(
    later: list[Observation], stands: bool
):
    assert told(ran(1, TEST, FAILED), *later).errors == ["tests/test_a.py::test_x: assert 3 == 4"] * stands


@pytest.mark.parametrize("command", ["gh run view 7 --log-failed | tail", "cat log.txt", "kubectl -n shop logs job/x"])
def test_what_a_command_shows_of_another_run_is_no_error_of_its_own(command: str):
    assert told(ran(1, command, FAILED)).errors == []


@pytest.mark.parametrize("value", [None, 7, [], ["make", 7], {"command": ["make"]}, {"cmd": None}, "x" * 9000])
def test_any_input_of_a_tool_can_be_read(value: Any):
    data = {"tool_name": value, "tool_input": value, "tool_output": value, "error": value}
    told(*(seen(n, kind=kind, data=data) for n, kind in enumerate(["error", "command_run", "file_edit", "other"])))


def test_a_tool_that_works_on_the_same_file_later_ends_its_error():
    failed = seen(1, kind="error", files=("a.py",), data={"tool_name": "Edit", "error": "String not found"})
    edited = seen(2, kind="file_edit", files=("a.py",), data={"tool_name": "Edit"})
    assert told(failed).errors == ["String not found"]
    assert told(failed, edited).errors == []


def test_an_error_that_a_model_titled_keeps_its_title():
    failed = seen(1, kind="error", title="The pool does not reconnect", model="m", data={"error": "exit 2"})
    assert told(failed).errors == ["The pool does not reconnect"]


def test_an_error_told_in_words_is_the_line_that_names_it():
    assert told(seen(1, kind="error", title="Traceback", content=TRACEBACK)).errors == ["KeyError: 'retries'"]


def test_recent_activity_is_what_each_session_was_about_newest_first():
    some = (
        seen(1, session="s1", content="We decided it.", importance=8),
        seen(2, session="s1", content="It was edited.", importance=6),
        seen(3, session="s2", content="The pool is full.", importance=5),
        seen(4, session="s3", content="It was read.", importance=4),
        seen(5, session="s4", data={"tool_name": "Edit", "tool_input": {"file_path": "a.py"}}, importance=6),
    )
    assert told(*some).recent_activity == [
        "[2026-01-31] Edit `a.py`",
        "[2026-01-31] The pool is full.",
        "[2026-01-31] We decided it.",
    ]
    found = profile(PROJECT, "", 1, some, [], NOW, {"s1": "Why does the checkout time out?"})
    assert found
    assert found.recent_activity[-1] == "[2026-01-31] Why does the checkout time out?"


def test_preferences_are_what_is_tagged_so_or_said_by_the_user():
    memories = (
        kept(1, "tabs", tags=["Preference"]),
        kept(2, "tea", user_id="bea"),
        kept(3, "coffee", user_id="cem"),
        kept(4, "old", tags=["preference"], is_latest=False),
        kept(5, "gone", tags=["preference"], forget_after=NOW - timedelta(days=1)),
        kept(6, "over", tags=["preference"], stated_until=NOW),
        kept(7, "tabs", tags=["preference"]),
    )
    assert told(memories=memories, user_id="bea").preferences == ["tabs", "tea"]
    assert told(memories=memories).preferences == ["tabs"]


def test_the_order_of_documents_does_not_matter():
    some = [seen(n, concepts=(f"c{n}",), importance=8, occurred_at=NOW, kind="error") for n in range(20)]
    assert told(*some) == told(*reversed(some))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["/app/src/auth.ts", "/app/src/db.tsx"], ["TypeScript project", "Standard src/ directory structure"]),
        (["src/a.py", "tests/test_a.py", "b.py"], ["Python project", "Tests in tests/"]),
        (["a.go", "a_test.go"], ["Go project", "Tests beside the code"]),
        (["a.rs", "b.rs", "c.py", "d.md"], ["Rust project", "Python project"]),
        (["a.py", "a.py", "b.go", "c.go", "d.go", "e.go"], ["Go project"]),
        (["C:\\app\\src\\a.cs"], ["C# project", "Standard src/ directory structure"]),
        (["README.md", "**/*.ts", "src"], []),
        ([], []),
    ],
)
def test_paths_give_conventions_away(files: list[str], expected: list[str]):
    assert conventions(files) == expected


def test_topics_of_scripts_without_spaces_are_concepts():
    name = "\u6570\u636e\u5e93"
    some = [
        seen(
            n,
            content=f"\u6211\u4eec\u7684{name}\u5f88\u6162\u3002\u9700\u8981\u4f18\u5316\u7d22\u5f15\u3002",
            concepts=(name,),
        )
        for n in range(3)
    ]
    assert told(*some).concepts == [(name, 3)]
