"""What is counted and weighed without a question: the values of facets, what the graph links, lessons, memories."""

from typing import Any

import pytest
from indexes import T0, Filled

from ingest.ids import DocumentId
from projections.search.index import Linked, Links
from projections.search.question import Filter

ANYTHING = Filter(tenant="default")
WEEK = 7 * 86_400_000
LONG = "docs/" + "x" * 300


async def test_each_value_of_a_facet_is_counted_and_one_that_none_has_is_left_out(filled: Filled):
    await filled.put("mem_1", "tea", agent_id="ada", types=["semantic", "decision"])
    await filled.put("mem_2", "tea", agent_id="ada", types=["semantic"], project=LONG)
    await filled.put("mem_3", "tea", project="", types=[LONG])
    await filled.put("mem_4", "tea", tenant="other", project="theirs", agent_id="eve")
    index = await filled.settle()
    assert index.counts(ANYTHING, T0, "project") == {"atlas": 1, LONG: 1, "": 1}
    assert index.counts(ANYTHING, T0, "agent") == {"ada": 2}
    assert index.counts(ANYTHING, T0, "type") == {"semantic": 2, "decision": 1, LONG: 1}
    assert index.counts(Filter(tenant="default", types=["decision"]), T0, "type") == {"semantic": 1, "decision": 1}
    assert index.counts(Filter(tenant="nobody"), T0, "project") == {}


async def test_facets_are_told_for_each_document_and_none_for_one_that_is_not_there(filled: Filled):
    await filled.put("mem_1", "tea", tags=["a,b", ""], files=["src/a.py"], audience=["ada"], partition=2)
    index = await filled.settle()
    (place,) = index.every(Filter(tenant="default", operator=True), T0)
    told, nothing = index.facets([place, (3, DocumentId("mem_2"))])
    assert {"partition\x1f2", "tag\x1fa,b", "tag\x1f", "file\x1fsrc/a.py", "reader\x1fada", "restricted\x1fyes"} <= {
        *told
    }
    assert [*nothing] == []


async def test_ids_with_vectors_are_told_wherever_they_are(filled: Filled):
    for partition in (0, 3):
        await filled.put(f"mem_{partition}", "tea", partition=partition)
        await filled.put(f"mem_{partition}x", "tea", partition=partition)
        await filled.embed(f"mem_{partition}", [1, 0, 0, 0], [0, 1, 0, 0], partition=partition)
    index = await filled.settle()
    assert index.with_vectors(["mem_0", "mem_0x", "mem_3", "mem_3x", "mem_9"]) == {"mem_0", "mem_3"}
    assert index.with_vectors([]) == set()


async def test_linked_values_are_those_of_matching_documents_in_an_order_that_holds(filled: Filled):
    for n in range(6):
        await filled.put(f"mem_{n}", "tea", files=[f"f{n}.py", LONG], tenant="other" if n % 2 else "default")
    index = await filled.settle()
    values = index.linked_values(ANYTHING, T0, "file", 100)
    assert {*values} == {"f0.py", "f2.py", "f4.py", LONG}
    assert len(values) == 4
    for most in (0, 1, 3, 4):
        assert index.linked_values(ANYTHING, T0, "file", most) == values[:most]
    assert index.linked_values(ANYTHING, T0, "concept", 9) == []


async def test_links_count_memories_and_the_episodes_of_observations(filled: Filled):
    await filled.put("mem_1", "tea", concepts=["a", "b"])
    await filled.put("mem_2", "tea", concepts=["a"])
    await filled.put("lsn_1", "tea", concepts=["a", "c"])
    for n, session in enumerate(("s1", "s1", "s2")):
        await filled.put(f"obs_{n}", "tea", concepts=["a", LONG], session_id=session, episode=session)
    await filled.put("obs_9", "tea", concepts=["b"], tenant="other", episode="s9")
    index = await filled.settle()
    values = ["a", "b", "c", LONG, "nothing", ""]
    assert index.links(ANYTHING, T0, "concept", values) == {"a": Links(2, 2), "b": Links(1, 0), LONG: Links(0, 2)}
    assert index.links(ANYTHING, T0, "session", ["s1", "s9"]) == {"s1": Links(0, 1)}
    assert index.links(ANYTHING, T0, "project", ["atlas"]) == {"atlas": Links(2, 2)}
    assert index.links(ANYTHING, T0, "concept", []) == {}


async def test_observations_outside_any_episode_count_as_one(filled: Filled):
    for n in range(3):
        await filled.put(f"obs_{n}", "tea", files=["a.py"], episode="s1" if n == 2 else "")
    index = await filled.settle()
    assert index.links(ANYTHING, T0, "file", ["a.py"]) == {"a.py": Links(0, 2)}


async def test_the_surest_lessons_fade_unless_they_are_said_again(filled: Filled):
    await filled.put("lsn_1", "tea", confidence=0.9, renewed_ms=T0 - 10 * WEEK)
    await filled.put("lsn_2", "tea", confidence=0.7, renewed_ms=T0)
    await filled.put("lsn_3", "tea", confidence=0.7)
    await filled.put("lsn_4", "tea", confidence=0.5, project="borealis")
    await filled.put("mem_1", "tea", confidence=1.0)
    index = await filled.settle()
    surest = index.lessons_by_confidence(ANYTHING, "borealis", T0, 10)
    assert [(one.id, one.partition, round(one.weight, 3)) for one in surest] == [
        ("lsn_4", 0, 0.75), ("lsn_2", 0, 0.7), ("lsn_3", 0, 0.7), ("lsn_1", 0, 0.4),
    ]  # fmt: skip
    assert [one.id for one in index.lessons_by_confidence(ANYTHING, "", T0, 2)] == ["lsn_2", "lsn_3"]
    assert (
        index.lessons_by_confidence(ANYTHING, "", T0, 0)
        == index.lessons_by_confidence(Filter(tenant="x"), "", T0, 9)
        == []
    )


async def test_notable_memories_are_important_new_of_the_project_and_the_readers_own(filled: Filled):
    documents: dict[str, dict[str, Any]] = {
        "mem_1": {"importance": 10.0, "recorded_ms": T0 - 50 * WEEK},
        "mem_2": {"importance": 5.0, "recorded_ms": T0},
        "mem_3": {"importance": 5.0, "recorded_ms": T0},
        "mem_4": {"importance": 0.0, "recorded_ms": T0, "project": "borealis"},
        "mem_5": {"importance": 0.0, "recorded_ms": T0, "agent_id": "ada"},
    }
    for name, fields in documents.items():
        await filled.put(name, "tea", **fields)
    index = await filled.settle()

    def notable(project: str, count: int = 9, reader: str = "") -> list[str]:
        return [name for _, name in index.notable_memories(Filter(tenant="default", reader=reader), project, T0, count)]

    assert notable("") == ["mem_2", "mem_3", "mem_1", "mem_4", "mem_5"]
    assert notable("borealis") == ["mem_2", "mem_3", "mem_4", "mem_1", "mem_5"]
    assert notable("", reader="ada") == ["mem_2", "mem_3", "mem_5", "mem_1", "mem_4"]
    assert notable("", 2) == ["mem_2", "mem_3"]
    assert notable("", 0) == []


@pytest.mark.parametrize("text", ["secret tea", "x" * 400])
async def test_nothing_that_was_removed_is_found_or_counted(with_table: Filled, text: str):
    """Nor the values that it alone had."""
    fields: dict[str, Any] = {
        "project": LONG,
        "agent_id": "eve",
        "tags": ["t"],
        "types": ["semantic"],
        "files": [LONG],
        "concepts": [text],
    }
    await with_table.put("mem_1", f"{text} dogs", **fields)
    await with_table.put("obs_1", f"{text} dogs", **fields, session_id="s1", episode="s1")
    await with_table.put("lsn_1", f"{text} dogs", **fields)
    await with_table.embed("mem_1", [1, 0, 0, 0])
    assert (await with_table.settle()).count(ANYTHING, T0) == 3
    await with_table.remove("mem_1", "obs_1", "lsn_1")
    index = await with_table.settle()
    everybody = Filter(tenant="default", operator=True)
    assert len(index) == index.count(everybody, T0) == index.window(everybody, T0, 0, 9).total == 0
    assert (
        index.every(everybody, T0) == index.recorded_last(everybody, T0, 9) == index.most_recent(everybody, T0, 9) == []
    )
    assert index.nearest(everybody, T0, T0) == index.saying(everybody, T0, text, everywhere=True) == []
    assert index.around(everybody, T0, "mem_1", T0, 9, 9) == ([], [])
    for name in ("project", "agent", "type"):
        assert index.counts(everybody, T0, name) == {}
    had: dict[Linked, str] = {"project": LONG, "session": "s1", "file": LONG, "concept": text}
    for name, value in had.items():
        assert index.linked_values(everybody, T0, name, 9) == []
        assert index.links(everybody, T0, name, [value]) == {}
    assert index.lessons_by_confidence(everybody, LONG, T0, 9) == index.notable_memories(everybody, LONG, T0, 9) == []
    assert index.with_vectors(["mem_1"]) == set()
    assert [*index.facets([(0, DocumentId("mem_1"))])[0]] == []
