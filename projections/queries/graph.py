"""The graph of what is remembered, derived from documents and index whenever it is asked for; nothing of it is stored.

Nodes are projects, sessions, memories, files and concepts. A memory is drawn from its document, once the reader was
found to be allowed to see it, so what is known only through others is not there. Observations are no nodes; they tell
which session touched which file.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader, may_read
from projections.documents.document import Document
from projections.documents.memories import Memory
from projections.documents.relation_rules import DEFAULT_HOPS, Edge, Related, Walk
from projections.documents.tombstones import Mark
from projections.queries.documents import DocumentReader
from projections.queries.graph_parts import (
    Link,
    Node,
    Sketch,
    count,
    facet_values,
    is_memory,
    named_node,
    seen,
    surroundings,
)
from projections.queries.lookup import Lookup
from projections.queries.near import Place, reach
from projections.queries.relations import Relations
from projections.search.service import ReplicaService

MAX_NODES = 500
MAX_DEPTH = 3
SLICE = 500
"""Facet values counted in one go; searches get their turn between."""
RELATIONS = 500
"""The newest relations of a project that are counted."""


class Drawing(Struct, frozen=True):
    """Part of the graph. The totals are of what was asked about, shown or not; `truncated` when not all is shown."""

    nodes: list[Node]
    edges: list[Link]
    total_nodes: int
    total_edges: int
    truncated: bool


class Totals(Struct, frozen=True):
    """How many nodes and edges there are of each type; `truncated` when not all were counted."""

    nodes: dict[str, int]
    edges: dict[str, int]
    truncated: bool


class RelatedDocument(Struct, frozen=True):
    """A related document, and how it is related."""

    related: Related
    document: Document


class Graph:
    """Answers questions about the graph."""

    def __init__(self, replica: ReplicaService, documents: DocumentReader, clock: Clock = system_clock) -> None:
        self._replica, self._documents, self._clock = replica, documents, clock
        self._lookup = Lookup(replica, documents, clock)
        self._relations = Relations(documents, self._lookup)

    async def query(
        self, reader: Reader, project: str | None, start: str | None = None, depth: int = 1, limit: int = MAX_NODES
    ) -> Drawing:
        """What is within `depth` steps (at most MAX_DEPTH) of a node, nearest first; without a start, the newest.

        A start that is not there, or that the reader may not see, gives an empty graph.
        """
        limit = max(0, min(limit, MAX_NODES))
        sketch = Sketch()
        await self._extend(sketch, reader, project, None if start is None else [start], limit)
        if start is None:
            totals = await self.stats(reader, project)
            drawing = _drawing(sketch, list(sketch.nodes), limit)
            nodes, edges = sum(totals.nodes.values()), sum(totals.edges.values())
            return Drawing(
                drawing.nodes,
                drawing.edges,
                max(nodes, drawing.total_nodes),
                max(edges, drawing.total_edges),
                drawing.truncated or totals.truncated,
            )
        if start not in sketch.nodes:
            return Drawing([], [], 0, 0, False)
        reached = frontier = [start]
        for step in range(min(depth, MAX_DEPTH)):
            if step:
                await self._extend(sketch, reader, project, frontier, limit)
            frontier = [name for name in sketch.next_to(frontier) if name not in set(reached)]
            reached = [*reached, *frontier]
            frontier = frontier[:limit]
        return _drawing(sketch, reached, limit)

    async def stats(self, reader: Reader, project: str | None) -> Totals:
        """The totals by type: counts bitmaps, one for each project, session, file and concept, COUNTED at most.

        Of a project also its newest RELATIONS; those of all projects, and versions, are not counted.
        """
        index, now_ms = self._replica.index, to_ms(self._clock())
        in_thread = self._replica.in_index_thread
        documents = await in_thread(seen, index, reach(reader, project), now_ms)
        values, more = await in_thread(facet_values, index)
        nodes, edges = Counter({"memory": len(documents.memories)}), Counter[str]()
        for start in range(0, len(values), SLICE):
            for node, edge, found in await in_thread(count, index, documents, values[start : start + SLICE]):
                nodes[node] += 1
                edges[edge] += found
        if project is not None:
            page = await self._relations.page(reader, project, None, RELATIONS)
            edges.update(one["relation"] for one in page.items)
            more = more or page.next is not None
        return Totals(dict(+nodes), dict(+edges), more)

    async def related(
        self, reader: Reader, name: str, max_hops: int = DEFAULT_HOPS, min_confidence: float = 0.0
    ) -> list[RelatedDocument]:
        """What is related to a document, directly or through others, surest first; raises NotFound for the document.

        Walks along relations, and from version to version of a memory; not through what the reader may not see.
        """
        await self._lookup.document(name, reader)
        walk = Walk.start(name, max_hops)
        while walk.frontier:
            stated = [
                Edge(one.source, one.target, one.relation, one.confidence)
                for one in await self._relations.of_documents(walk.frontier, reader)
            ]
            walk = walk.step([*stated, *await self._versions(walk.frontier, reader)])
        related = walk.related(min_confidence)
        known = await self._readable([one.id for one in related], reader)
        return [RelatedDocument(one, known[one.id]) for one in related if one.id in known]

    async def _extend(
        self, sketch: Sketch, reader: Reader, project: str | None, around: Sequence[str] | None, limit: int
    ) -> None:
        """Draw what is next to these nodes, and the nodes themselves; without any, the newest there is."""
        index, now_ms = self._replica.index, to_ms(self._clock())
        found = await self._replica.in_index_thread(
            surroundings, index, reach(reader, project), now_ms, around, limit + 1
        )
        sketch.cut |= found.more
        named = [one for name, one in (await self._readable(around or (), reader)).items() if is_memory(name)]
        memories = _in_project([*named, *await self._at(found.memories, reader)], project)
        for one in memories:
            sketch.put(one)
        for name in found.sessions:
            sketch.name(name)
        sketch.draw(found.links)
        ends = [one.id for one in memories]
        if around is not None:
            ends = [name for name in around if is_memory(name) or named_node(name)]
        relations = await self._relations.of_documents(ends, reader)
        links = [Link(one.source, one.target, one.relation) for one in relations if project in (None, one.project)]
        links += [Link(one.source, one.target, one.relation) for one in await self._versions(ends, reader)]
        others = {end for link in links for end in (link.source, link.target) if is_memory(end)} - sketch.nodes.keys()
        for one in _in_project((await self._readable(sorted(others), reader)).values(), project):
            sketch.put(one)
        sketch.draw(links)

    async def _versions(self, names: Iterable[str], reader: Reader) -> list[Edge]:
        """Which memory follows which, among these and the next, as far as the reader may see both."""
        known = await self._readable([name for name in names if is_memory(name)], reader)
        pairs = {pair: None for one in known.values() if isinstance(one, Memory) for pair in _followed(one)}
        known |= await self._readable([end for pair in pairs for end in pair if end not in known], reader)
        return [Edge(newer, older, "supersedes") for newer, older in pairs if newer in known and older in known]

    async def _readable(self, names: Sequence[str], reader: Reader) -> dict[str, Document]:
        found = await self._lookup.documents(list(dict.fromkeys(names)), reader)
        return {one.document.id: one.document for one in found if not isinstance(one.document, Mark)}

    async def _at(self, wanted: Sequence[Place], reader: Reader) -> list[Document]:
        found = await self._documents.get(wanted)
        return [one for one in found if one is not None and may_read(one, reader)]


def _in_project(found: Iterable[Document], project: str | None) -> list[Memory]:
    return [one for one in found if isinstance(one, Memory) and project in (None, one.project)]


def _followed(memory: Memory) -> list[tuple[str, str]]:
    """Pairs of memories, the newer first, that this one is in."""
    pairs = [(memory.id, memory.parent_id), (memory.superseded_by, memory.id)]
    return [
        (newer, older) for newer, older in [*pairs, *((memory.id, one) for one in memory.condensed)] if newer and older
    ]


def _drawing(sketch: Sketch, names: Sequence[str], limit: int) -> Drawing:
    shown = names[:limit]
    nodes = [sketch.nodes[name] for name in shown]
    truncated = sketch.cut or len(names) > limit
    return Drawing(nodes, sketch.among(shown), len(names), len(sketch.among(names)), truncated)
