"""The graph derived from what is remembered, and what it keeps from whom."""

from typing import Any

import pytest
from desk import ADA, ALONE, BOB, NOBODY, STRANGER, Desk
from msgspec.structs import replace

from ingest.commands.decide import Relate, ReviseMemory
from ingest.errors import NotFound
from projections.documents.access import Reader
from projections.queries import graph as graph_module
from projections.queries.graph import Drawing, Graph


@pytest.fixture
def graph(desk: Desk) -> Graph:
    return Graph(desk.replica, desk.documents)


def names(drawn: Drawing) -> set[str]:
    return {node.id for node in drawn.nodes}


def edges(drawn: Drawing) -> set[tuple[str, str, str]]:
    return {(one.source, one.type, one.target) for one in drawn.edges}


async def test_memories_and_sessions_are_drawn_with_what_they_are_in_and_about(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", session_id="s1", files=["src/tea.py"], concepts=["tea"])
    await desk.edit("src/pot.py")
    await desk.edit("src/pot.py")
    await desk.settle()
    drawn = await graph.query(ADA, "atlas")
    assert names(drawn) == {tea, "project:atlas", "session:s1", "file:src/tea.py", "file:src/pot.py", "concept:tea"}
    assert edges(drawn) == {
        (tea, "in_project", "project:atlas"),
        (tea, "in_session", "session:s1"),
        (tea, "touches", "file:src/tea.py"),
        (tea, "about", "concept:tea"),
        ("session:s1", "in_project", "project:atlas"),
        ("session:s1", "touches", "file:src/pot.py"),
    }
    assert (drawn.total_nodes, drawn.total_edges, drawn.truncated) == (6, 6, False)
    assert {node.id: (node.type, node.label) for node in drawn.nodes}[tea] == ("memory", "the kettle leaks")


async def test_from_a_node_the_graph_is_drawn_step_by_step(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", concepts=["tea"], files=["src/tea.py"])
    pot = await desk.remember("the pot is cracked", concepts=["tea"], project="hermes")
    await desk.edit("src/tea.py", session_id="s2")
    await desk.settle()
    assert names(await graph.query(ADA, None, "concept:tea", 0)) == {"concept:tea"}
    assert names(await graph.query(ADA, None, "concept:tea", 1)) == {"concept:tea", tea, pot}
    assert names(await graph.query(ADA, "atlas", "concept:tea", 1)) == {"concept:tea", tea}
    nearby = {"project:atlas", "file:src/tea.py", "concept:tea"}
    assert names(await graph.query(ADA, None, tea, 1)) == {tea, *nearby}
    assert names(await graph.query(ADA, None, tea, 2)) == {tea, *nearby, pot, "session:s2"}
    cut = await graph.query(ADA, None, "concept:tea", 1, limit=2)
    assert (len(cut.nodes), cut.total_nodes, cut.truncated) == (2, 3, True)


async def test_relations_and_versions_are_edges_of_their_own_type(desk: Desk, graph: Graph):
    old = await desk.remember("tea at four")
    other = await desk.remember("coffee at ten")
    await desk.say(Relate(source=other, target=old, relation="contradicts", project="atlas"))
    await desk.say(Relate(source=other, target="concept:caffeine", relation="causes", project="atlas"))
    await desk.settle()
    revised = ReviseMemory(
        memory=old, content="tea at five", memory_type="semantic", purpose="information", project="atlas"
    )
    new = await desk.say(revised)
    await desk.settle()
    drawn = await graph.query(ADA, "atlas")
    assert {edge for edge in edges(drawn) if edge[1] != "in_project"} == {
        (other, "contradicts", old),
        (other, "causes", "concept:caffeine"),
        (new, "supersedes", old),
    }
    assert names(await graph.query(ADA, None, "concept:caffeine")) == {"concept:caffeine", other}
    assert (await graph.stats(ADA, "atlas")).edges == {"in_project": 2, "contradicts": 1, "causes": 1}


async def test_totals_count_every_type(desk: Desk, graph: Graph, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graph_module, "SLICE", 3)
    await desk.remember("the kettle leaks", session_id="s1", files=["a.py", "b.py"], concepts=["tea"])
    await desk.remember("global", project="", concepts=["tea"])
    for session in ("s1", "s2", "s2"):
        await desk.edit("a.py", session_id=session)
    await desk.edit("c.py", session_id="s3", project="hermes")
    await desk.settle()
    totals = await graph.stats(ADA, None)
    assert totals.nodes == {"memory": 2, "project": 2, "session": 3, "file": 3, "concept": 1}
    assert totals.edges == {"in_project": 4, "in_session": 1, "touches": 5, "about": 2}
    assert not totals.truncated
    drawn = await graph.query(ADA, None)
    assert (drawn.total_nodes, drawn.total_edges) == (len(drawn.nodes), len(drawn.edges)) == (11, 12)
    assert (await graph.stats(ADA, "hermes")).nodes == {"project": 1, "session": 1, "file": 1}


async def test_a_memory_that_somebody_may_not_see_is_not_there_nor_what_is_known_through_it_alone(
    desk: Desk, graph: Graph
):
    public = await desk.remember("the kettle leaks", concepts=["tea"])
    secret = await desk.remember(
        "the safe is behind the kettle", visibility="private", concepts=["safe"], files=["plan.md"], session_id="s9"
    )
    await desk.say(Relate(source=secret, target=public, relation="explains", project="atlas"))
    await desk.settle()
    hidden = {secret, "concept:safe", "file:plan.md", "session:s9"}
    assert hidden < names(await graph.query(ADA, None))
    for reader in (BOB, NOBODY, STRANGER, ALONE):
        seen = {public, "concept:tea", "project:atlas"} if reader in (BOB, NOBODY) else set[str]()
        drawn = await graph.query(reader, None)
        assert names(drawn) == seen
        assert not {edge.type for edge in drawn.edges} & {"explains"}
        totals = await graph.stats(reader, "atlas")
        assert sum(totals.nodes.values()) == len(seen)
        assert "explains" not in totals.edges
        for start in hidden:
            assert await graph.query(reader, None, start, 3) == Drawing([], [], 0, 0, False)


async def test_a_forgotten_memory_is_gone_from_the_graph(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", concepts=["tea"])
    await desk.settle()
    assert tea in names(await graph.query(ADA, None))
    await desk.forget("memory", tea)
    assert names(await graph.query(ADA, None)) == set()


async def related(graph: Graph, name: str, reader: Reader = ADA, **asked: Any) -> list[tuple[str, int, float]]:
    found = await graph.related(reader, name, **asked)
    return [(one.related.id, one.related.hops, one.related.confidence) for one in found]


async def test_related_documents_come_surest_first_through_relations_and_versions(desk: Desk, graph: Graph):
    a, b, c, d = [await desk.remember(f"memory {name}") for name in "abcd"]
    await desk.say(Relate(source=a, target=b, relation="explains", project="atlas", confidence=0.9))
    await desk.say(Relate(source=c, target=b, relation="explains", project="atlas", confidence=0.3))
    await desk.say(Relate(source=d, target=c, relation="explains", project="atlas", confidence=0.8))
    await desk.settle()
    revised = ReviseMemory(memory=a, content="new a", memory_type="semantic", purpose="information", project="atlas")
    new = await desk.say(revised)
    await desk.settle()
    assert await related(graph, a) == [(b, 1, 0.9), (new, 1, 0.5), (c, 2, 0.3)]
    assert await related(graph, a, max_hops=3) == [(b, 1, 0.9), (d, 3, 0.8), (new, 1, 0.5), (c, 2, 0.3)]
    assert await related(graph, a, min_confidence=0.5) == [(b, 1, 0.9), (new, 1, 0.5)]
    (first, *_) = await graph.related(ADA, a)
    assert getattr(first.document, "content", "") == "memory b"
    with pytest.raises(NotFound):
        await graph.related(STRANGER, a)


async def test_nothing_is_related_through_what_the_reader_may_not_see(desk: Desk, graph: Graph):
    a, b = [await desk.remember(f"memory {name}") for name in "ab"]
    secret = await desk.remember("between them", visibility="private")
    for end in (a, b):
        await desk.say(Relate(source=secret, target=end, relation="explains", project="atlas", confidence=0.9))
    await desk.settle()
    revised = ReviseMemory(
        memory=a, content="hidden", memory_type="semantic", purpose="information", project="atlas", agent_id="ada"
    )
    new = await desk.say(replace(revised, visibility="private"))
    await desk.settle()
    assert {one for one, _, _ in await related(graph, a)} == {secret, b, new}
    assert await related(graph, a, BOB) == []
