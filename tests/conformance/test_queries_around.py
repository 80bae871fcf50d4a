"""What happened around something, and what is known of files; and who is told."""

from datetime import timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, BOB, NOBODY, STRANGER, Desk
from factories import NOW, minute
from msgspec.structs import replace

from ingest.commands.decide import Relate, ReviseMemory
from ingest.errors import NotFound
from projections.documents.access import Reader
from projections.queries import graph as graph_module
from projections.queries import lookup
from projections.queries.graph import Drawing, Graph
from projections.queries.observations import AroundQueries, EnrichRequest, Timeline


@pytest.fixture
def around(desk: Desk) -> AroundQueries:
    return AroundQueries(desk.replica, desk.documents, desk.recall)


def told(timeline: Timeline) -> list[tuple[int, str]]:
    return [(entry.position, entry.observation.content) for entry in timeline.entries]


async def day(desk: Desk) -> list[str]:
    """Nine observations, a minute apart, written in another order than they happened."""
    names = {n: await desk.observe(f"step {n}", minute(n), session_id=f"s{n % 2}") for n in (4, 0, 8, 2, 6, 1, 7, 3, 5)}
    await desk.settle()
    return [names[n] for n in range(9)]


async def test_around_a_date_is_what_happened_nearest_to_it(desk: Desk, around: AroundQueries):
    await day(desk)
    timeline = await around.timeline(ADA, (minute(4) + timedelta(seconds=20)).isoformat(), "atlas", before=2, after=3)
    assert told(timeline) == [(n - 4, f"step {n}") for n in range(2, 8)]
    assert (timeline.anchor_index, timeline.reason) == (2, "")
    assert told(await around.timeline(ADA, NOW.strftime("%Y-%m-%d"), "atlas", before=1, after=1))[0] == (0, "step 0")


async def test_around_an_observation_is_what_happened_before_and_after_it(desk: Desk, around: AroundQueries):
    names = await day(desk)
    assert told(await around.timeline(ADA, names[8], "atlas", before=2)) == [
        (-2, "step 6"),
        (-1, "step 7"),
        (0, "step 8"),
    ]
    of_session = await around.timeline(ADA, names[4], None, "s0", before=1, after=1)
    assert told(of_session) == [(-1, "step 2"), (0, "step 4"), (1, "step 6")]
    assert (await around.timeline(ADA, names[4], "hermes")).reason == "no_match"
    assert (await around.timeline(ADA, names[4], None, "s1")).reason == "no_match"


async def test_what_happened_in_the_same_millisecond_is_in_the_order_of_ids(desk: Desk, around: AroundQueries):
    names = sorted([await desk.observe(f"step {n}", NOW) for n in range(5)])
    await desk.settle()
    timeline = await around.timeline(ADA, names[2], "atlas", before=1, after=1)
    assert [entry.observation.id for entry in timeline.entries] == names[1:4]


@pytest.mark.parametrize("looked_at", [2_000, 1])
async def test_around_words_is_the_newest_that_contains_them(
    desk: Desk, around: AroundQueries, looked_at: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lookup, "LOOKED_AT", looked_at)
    await desk.observe("the kettle leaks", minute(1))
    await desk.observe("the kettle was replaced", minute(3))
    await desk.observe("the pot, not that kettle leaks", minute(2))
    await desk.observe("tea at four", minute(4))
    await desk.settle()
    assert told(await around.timeline(ADA, "Kettle", "atlas", before=0, after=0)) == [(0, "the kettle was replaced")]
    timeline = await around.timeline(ADA, "kettle leaks", "atlas", before=0, after=0)
    assert told(timeline) == [(0, "the pot, not that kettle leaks")]
    assert (await around.timeline(ADA, "leaks kettle", "atlas")).reason == "no_match", "not as it was said"


async def test_an_empty_timeline_says_why(desk: Desk, around: AroundQueries):
    await day(desk)
    reasons = {
        "  ": "invalid_anchor",
        "2026-13-45": "invalid_date",
        "2026-01-31 at tea": "invalid_date",
        "nobody said this": "no_match",
        "obs_0123": "no_match",
    }
    timeline = {anchor: await around.timeline(ADA, anchor, "atlas") for anchor in reasons}
    assert {anchor: item.reason for anchor, item in timeline.items()} == reasons
    assert {(len(item.entries), item.anchor_index) for item in timeline.values()} == {(0, -1)}
    assert (await around.timeline(ADA, "2026-01-31", "nowhere")).reason == "no_match"


async def test_a_timeline_tells_isolated_readers_their_own_only_and_other_tenants_nothing(
    desk: Desk, around: AroundQueries
):
    names = [
        await desk.observe(f"step {n}", minute(n), agent_id=agent)
        for n, agent in enumerate(["ada", "bob", "ada", "bob"])
    ]
    await desk.settle()
    assert told(await around.timeline(ALONE, names[1], "atlas")) == [(0, "step 1"), (1, "step 3")]
    assert told(await around.timeline(ALONE, "step", None))[-1] == (0, "step 3")
    for anchor in (names[0], "step 2"):
        assert (await around.timeline(ALONE, anchor, "atlas")).reason == "no_match"
    for anchor in (names[0], "step", "2026-01-31"):
        assert (await around.timeline(STRANGER, anchor, None)).reason == "no_match"


async def enriched(
    around: AroundQueries, *files: str, reader: Reader = ADA, session: str = "s9", **options: Any
) -> str:
    headers: dict[str, Any] = {"terms": [], "tool_name": "Edit", "project": "atlas", **options}
    results = await around.enrich(reader, session, files, **headers)
    return results.context


async def test_files_are_told_of_by_history_recall_and_bugs(desk: Desk, around: AroundQueries):
    await desk.edit("/repo/src/tea.py", "the kettle was too small")
    await desk.edit("src/tea.py", "steeped for long", session_id="s2")
    await desk.edit("lib/tea.py", "unrelated", session_id="s2")
    await desk.remember("the pot overflows on retry", files=["src/tea.py"], tags=["bug"])
    await desk.remember("the pot is blue", files=["src/tea.py"])
    await desk.remember("the pot leaks", files=["other.py"], tags=["bug"])
    await desk.settle()
    context = await enriched(around, "src/tea.py", terms=["overflows"])
    history, _, rest = context.partition("</agentmemory-file-context>")
    assert history.startswith("<agentmemory-file-context>\n## src/tea.py\n")
    assert "Edit `/repo/src/tea.py`" in history
    assert "Edit `src/tea.py`" in history
    assert "lib/tea.py" not in history
    assert "<agentmemory-relevant-context>" in rest
    _, _, errors = rest.partition("<agentmemory-past-errors>\n")
    assert errors == "- the pot overflows on retry\n</agentmemory-past-errors>"
    assert "Edit `src/tea.py`" in await enriched(around, "/home/ada/src/tea.py")
    assert len(await enriched(around, "src/tea.py", limit_chars=120)) <= 120


async def test_a_sessions_own_work_is_no_news_and_its_project_is_the_default(desk: Desk, around: AroundQueries):
    await desk.edit("tea.py", "steeped for long", session_id="s1")
    await desk.edit("tea.py", "of another project", session_id="s2", project="hermes")
    await desk.observe("begun", session_id="s9")
    await desk.settle()
    assert "file-context" not in await enriched(around, "tea.py", session="s1")
    assert "steeped for long" in await enriched(around, "tea.py", project=None)
    assert "of another project" not in await enriched(around, "tea.py", project=None)
    assert "of another project" in await enriched(around, "tea.py", project=None, session="unknown")


async def test_nothing_known_is_nothing_said(desk: Desk, around: AroundQueries):
    assert await enriched(around, "tea.py") == ""
    assert await enriched(around) == ""


async def test_bugs_are_told_to_those_who_may_see_them(desk: Desk, around: AroundQueries):
    await desk.remember("overflows on retry", files=["tea.py"], tags=["bug"], visibility="private")
    await desk.settle()
    assert "overflows" in await enriched(around, "tea.py")
    for reader in (BOB, NOBODY, ALONE, STRANGER):
        assert await enriched(around, "tea.py", reader=reader) == ""


@pytest.fixture
def graph(desk: Desk) -> Graph:
    return Graph(desk.replica, desk.documents)


def names(drawn: Drawing) -> set[str]:
    return {node.id for node in drawn.nodes}


def edges(drawn: Drawing) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.type, edge.target) for edge in drawn.edges}


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
        observation = {public, "concept:tea", "project:atlas"} if reader in (BOB, NOBODY) else set[str]()
        drawn = await graph.query(reader, None)
        assert names(drawn) == observation
        assert not {edge.type for edge in drawn.edges} & {"explains"}
        totals = await graph.stats(reader, "atlas")
        assert sum(totals.nodes.values()) == len(observation)
        assert "explains" not in totals.edges
        for start in hidden:
            assert await graph.query(reader, None, start, 3) == Drawing([], [], 0, 0, False)


async def test_a_forgotten_memory_is_gone_from_the_graph(desk: Desk, graph: Graph):
    tea = await desk.remember("the kettle leaks", concepts=["tea"])
    await desk.settle()
    assert tea in names(await graph.query(ADA, None))
    await desk.forget("memory", tea)
    assert names(await graph.query(ADA, None)) == set()


async def related(graph: Graph, name: str, reader: Reader = ADA, **options: Any) -> list[tuple[str, int, float]]:
    results = await graph.related(reader, name, **options)
    return [(result.related.id, result.related.hops, result.related.confidence) for result in results]


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
    assert {item for item, _, _ in await related(graph, a)} == {secret, b, new}
    assert await related(graph, a, BOB) == []
