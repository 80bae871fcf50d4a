"""What a project is like."""

import json
from datetime import timedelta
from typing import Any

import pytest
from factories import NOW, PROJECT, TENANT, minute

from ingest.ids import DocumentId
from projections.condensing.profile import Profile, conventions, profile
from projections.documents.memories import Memory
from projections.documents.observations import Observation


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


def test_concepts_and_files_are_counted_and_equal_counts_go_by_name():
    found = told(seen(1, concepts=("b", "a"), files=("x.py",)), seen(2, concepts=("c", "c", "b"), files=("x.py",)))
    assert found.concepts == [("b", 2), ("a", 1), ("c", 1)]
    assert found.files == [("x.py", 2)]


def test_fifteen_concepts_are_enough():
    assert len(told(seen(1, concepts=tuple("abcdefghijklmnopqrst"))).concepts) == 15


def test_errors_are_distinct_and_newest_first():
    errors = [seen(n, kind="error", title=f"E{n % 12}") for n in range(24)]
    assert told(*errors, seen(30)).errors == [f"E{n}" for n in range(11, 1, -1)]


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
        ({"error": ""}, []),
    ],
)
def test_an_error_of_a_tool_is_what_went_wrong_and_not_the_tool(data: dict[str, Any], expected: list[str]):
    failed = seen(1, kind="error", title="Bash", data={"tool_name": "Bash", **data})
    assert told(failed).errors == expected


def test_an_error_that_a_model_titled_keeps_its_title():
    failed = seen(1, kind="error", title="The pool does not reconnect", model="m", data={"error": "exit 2"})
    assert told(failed).errors == ["The pool does not reconnect"]


def test_an_error_told_in_words_is_the_line_that_names_it():
    assert told(seen(1, kind="error", title="Traceback", content=TRACEBACK)).errors == ["KeyError: 'retries'"]


def test_recent_activity_is_the_most_important_of_each_session_newest_first():
    found = told(
        seen(1, session="s1", title="decided", importance=8),
        seen(2, session="s1", title="edited", importance=6),
        seen(3, session="s2", title="Bash", narrative="Bash: make check", importance=5),
        seen(4, session="s3", title="Read", importance=4),
        seen(5, session="s4", title="Edit", narrative="a  b", importance=6),
    )
    assert found.recent_activity == ["[2026-01-31] Edit: a b", "[2026-01-31] Bash: make check", "[2026-01-31] decided"]


def test_preferences_are_what_is_tagged_so_or_said_by_the_user():
    memories = (
        kept(1, "tabs", tags=["Preference"]),
        kept(2, "tea", user_id="bea"),
        kept(3, "coffee", user_id="cem"),
        kept(4, "old", tags=["preference"], is_latest=False),
        kept(5, "gone", tags=["preference"], forget_after=NOW - timedelta(days=1)),
        kept(6, "tabs", tags=["preference"]),
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
