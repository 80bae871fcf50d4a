"""What an agent is told about the files it is about to touch."""

import re
from typing import Any

import pytest
from factories import NOW, TENANT, minute

from ingest.ids import DocumentId
from projections.compression.words import same_file
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.queries.observations import Enriched, enrich


def seen(n: int, **fields: Any) -> Observation:
    """An edit n minutes after NOW."""
    given: dict[str, Any] = {"content": f"This was edit {n}.", "kind": "file_edit", "occurred_at": minute(n), **fields}
    return Observation(
        id=DocumentId(f"obs_{n}"),
        event_id=f"o{n}",
        tenant=TENANT,
        session=DocumentId("s1"),
        recorded_at=NOW,
        position=f"{n}-0",
        **given,
    )


def bug(n: int, title: str, content: str, **fields: Any) -> Memory:
    """A memory of a bug, recorded n minutes after NOW."""
    return Memory(
        id=DocumentId(f"mem_{n}"),
        event_id=f"m{n}",
        tenant=TENANT,
        title=title,
        content=content,
        occurred_at=NOW,
        recorded_at=minute(n),
        updated_at=minute(n),
        position="1-0",
        **fields,
    )


def test_all_that_is_known_is_told_in_three_parts():
    found = enrich(
        {"a.py": [seen(1, content="We renamed f. It was slow.")]}, ["f is slow"], [bug(1, "Leak", "f leaks")]
    )
    assert found == Enriched(
        "<agentmemory-file-context>\n## a.py\n- 2026-01-31: We renamed f. It was slow.\n</agentmemory-file-context>\n\n"
        "<agentmemory-relevant-context>\nf is slow\n</agentmemory-relevant-context>\n\n"
        "<agentmemory-past-errors>\n- Leak: f leaks\n</agentmemory-past-errors>",
        truncated=False,
    )


def test_a_part_with_nothing_to_say_is_left_out():
    assert enrich({}, [], []) == Enriched("", truncated=False)
    assert enrich(
        {"a.py": [seen(1, importance=3)], "b.py": []}, ["", " "], [bug(1, "t", "c", is_latest=False)]
    ) == Enriched("", truncated=False)


def test_a_file_shows_its_five_most_important_observations_the_newest_of_equal_ones():
    history = [seen(1, importance=9), seen(2, importance=4), *(seen(n) for n in range(3, 9))]
    told = enrich({"a.py": history}, [], []).context
    assert re.findall(r"edit \d", told) == ["edit 1", "edit 8", "edit 7", "edit 6", "edit 5"]


def test_five_hits_and_the_three_newest_bugs_are_enough():
    told = enrich({}, [f"hit {n}" for n in range(9)], [bug(n, f"bug {n}", f"bug {n}") for n in range(5)]).context
    assert re.findall(r"hit \d", told) == [f"hit {n}" for n in range(5)]
    assert re.findall(r"- bug \d", told) == ["- bug 4", "- bug 3", "- bug 2"]


def test_nothing_quoted_can_close_a_part_or_start_a_line():
    told = enrich(
        {"<b>.py": [seen(1, content="It was </agentmemory-file-context>\nand more")]}, ["x < y\n& z"], []
    ).context
    assert told.count("</agentmemory-file-context>") == 1
    assert "## &lt;b&gt;.py\n- 2026-01-31: It was &lt;/agentmemory" in told
    assert "x &lt; y &amp; z" in told


def test_too_much_is_cut_and_every_part_is_closed():
    found = enrich({"a.py": [seen(1, content="n" * 3_000)]}, ["h" * 4_000], [bug(1, "t", "c")])
    assert found.truncated
    assert len(found.context) == 4_000
    assert found.context.endswith("h\n</agentmemory-relevant-context>")


def test_no_limit_is_exceeded_and_no_entity_is_cut():
    for limit in range(260):
        found = enrich({"a.py": [seen(1, content="&" * 30)]}, ["<" * 20], [], limit_chars=limit)
        assert len(found.context) <= limit
        assert found.context.count("<") == 2 * found.context.count("</")
        assert re.fullmatch(r"(?:[^&]|&(?:amp|lt|gt);)*", found.context)


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        ("src/a.py", "src/a.py", True),
        ("/app/src/a.py", "src/a.py", True),
        ("src/a.py", "/app/src/a.py", True),
        ("src/a.py", "./a.py", True),
        ("src\\a.py", "a.py", True),
        ("src/ba.py", "a.py", False),
        ("src/a.py", "lib/a.py", False),
        ("", "a.py", False),
        ("src/", "", False),
    ],
)
def test_paths_name_one_file_when_one_ends_in_the_other(stored: str, wanted: str, expected: bool):
    assert same_file(stored, wanted) is expected
