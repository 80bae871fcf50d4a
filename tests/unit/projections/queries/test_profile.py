"""What a project is like."""

import json
from datetime import timedelta
from typing import Any

import pytest
from factories import NOW, PROJECT, TENANT, minute

from ingest.ids import DocumentId
from projections.documents.memories import Memory
from projections.documents.observations import Observation
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


def test_topics_and_files_are_counted_and_equal_counts_go_by_name():
    said = "The pool and the queue share a cache."
    found = told(
        seen(1, content=said, concepts=("queue", "pool"), files=("x.py",)),
        seen(2, content=said, concepts=("cache", "cache", "queue"), files=("x.py",)),
        seen(3, content=said, concepts=("pool",)),
    )
    assert found.concepts == [("pool", 2), ("queue", 2)]
    assert found.files == [("x.py", 2)]


def test_fifteen_topics_are_enough():
    topics = [f"{letter}{letter}" for letter in "abcdefghijklmnopqrst"]
    some = [seen(n, content=f"There is {', '.join(topics)}.", concepts=tuple(topics)) for n in range(2)]
    assert len(told(*some).concepts) == 15


@pytest.mark.parametrize("concept", ["reservation_id", "en-us", "http-equiv", "m20izo", "PixelData", "todo the"])
def test_identifiers_markup_and_what_no_sentence_says_are_no_concepts(concept: str):
    some = [seen(n, content=f'<meta {concept}="x">', concepts=(concept.lower(),)) for n in range(3)]
    assert told(*some).concepts == []


def test_what_was_searched_for_is_no_file():
    assert told(seen(1, kind="search", files=("/repo",)), seen(2, files=("/repo/a.py",))).files == [("/repo/a.py", 1)]


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
        ({"tool_output": "export const App = () => null"}, []),
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
