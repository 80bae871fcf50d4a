"""The graph of what is remembered, derived from documents and index whenever it is asked for; nothing of it is stored.

Nodes are projects, sessions, memories, files and concepts. A memory is drawn from its document, once the reader was
found to be allowed to see it, so what is known only through others is not there. Observations are no nodes; they tell
which session touched which file.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ingest.kinds import MEMORY
from projections.index.protocol import DocumentLocation, Index, IndexService, Linked
from projections.nouns.access import Reader
from projections.nouns.document import Document
from projections.nouns.memory import Memory
from projections.nouns.relation import DEFAULT_HOPS, Edge, RelatedMemory, Walk
from projections.nouns.tombstone import SupersededEvent
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup, key_scope
from projections.queries.work import Relations
from projections.search.question import Filter

OBSERVATIONS = 1_000
"""The newest so many tell, at each step, which sessions touched what."""
# facet values, about a second's work; the rest is not counted
COUNTED = 100_000
EDGES: dict[Linked, str] = {"project": "in_project", "session": "in_session", "file": "touches", "concept": "about"}
"""Node types whose nodes are named by what they are, also the facets that know them; and the edges that end there."""


class Node(Struct, frozen=True):
    """A node; `id` is unique among all: `project:NAME`, `session:ID`, `file:PATH`, `concept:NAME`, or a memory's id."""

    id: str
    type: str
    label: str


class Link(Struct, frozen=True):
    """An edge: `type` is in_project, in_session, touches, about, supersedes, or the relation that somebody stated."""

    source: str
    target: str
    type: str


class Sketch:
    """A part of the graph while it is being drawn."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.links: dict[Link, None] = {}
        self.cut = False
        """Whether something was left out."""

    def put(self, memory: Memory) -> None:
        """Draw a memory and all that is said to be its."""
        self.nodes[memory.id] = Node(memory.id, "memory", memory.title)
        values: dict[Linked, Sequence[str]] = {
            "project": [memory.project],
            "session": [memory.session_id],
            "file": memory.files,
            "concept": memory.concepts,
        }
        self.draw([Link(memory.id, f"{kind}:{name}", EDGES[kind]) for kind, names in values.items() for name in names])

    def draw(self, links: Iterable[Link]) -> None:
        """Draw links between named nodes and memories that were put; others are left out."""
        for link in links:
            ends = [self.nodes.get(name) or named_node(name) for name in (link.source, link.target)]
            existing = [node for node in ends if node is not None]
            if len(existing) == len(ends):
                self.nodes.update((node.id, node) for node in existing)
                self.links[link] = None

    def next_to(self, names: Iterable[str]) -> list[str]:
        """The nodes at the other ends of these nodes' links, in the order they were drawn."""
        near = set(names)
        far = [
            other for link in self.links for other in (link.target, link.source) if {link.source, link.target} & near
        ]
        return [name for name in dict.fromkeys(far) if name not in near]

    def among(self, names: Iterable[str]) -> list[Link]:
        """The links between these nodes."""
        selected = set(names)
        return [link for link in self.links if link.source in selected and link.target in selected]


def is_memory(name: str) -> bool:
    """Whether a node id is a memory's."""
    return name.startswith(f"{MEMORY}_")


def named_node(name: str) -> Node | None:
    """The node of an id that says what it is; None for any other."""
    kind, colon, label = name.partition(":")
    return Node(name, kind, label) if colon and label and kind in EDGES else None


class Surroundings(NamedTuple):
    """What is next to some nodes: memories, newest first, sessions and what they touched; `more` if that is not all."""

    memories: list[DocumentLocation]
    sessions: list[str]
    links: list[Link]
    more: bool


def surroundings(index: Index, allowed: Filter, around: Sequence[str] | None, count: int) -> Surroundings:
    """What the index knows to be next to some nodes, without any everything: of memories the newest `count`."""
    if around is not None:
        named = [node for node in map(named_node, around) if node is not None]
        if not named:
            return Surroundings([], [], [], False)
        allowed = replace(allowed, any_of=[(node.type, node.label) for node in named])
    memories = index.recorded_last(replace(allowed, kinds=["memory"]), count + 1)
    observations = index.recorded_last(replace(allowed, kinds=["observation"]), OBSERVATIONS + 1)
    sessions: dict[str, None] = {}
    links: dict[Link, None] = {}
    for keys in index.facets(observations[:OBSERVATIONS]):
        values = [(name, value) for name, _, value in (key.partition("\x1f") for key in keys) if value]
        session = next((f"session:{value}" for name, value in values if name == "session"), "")
        sessions[session] = None
        types = {"project": "in_project", "file": "touches"}
        links |= {Link(session, f"{name}:{value}", types[name]): None for name, value in values if name in types}
    more = len(memories) > count or len(observations) > OBSERVATIONS
    return Surroundings(memories[:count], list(sessions), list(links), more)


MAX_NODES = 500
MAX_DEPTH = 3
# facet values counted at once; searches run in between
SLICE = 500
RELATIONS = 500
"""The newest relations of a project that are counted."""


class Drawing(Struct, frozen=True):
    """Part of the graph. The totals are of all that matches, shown or not; `truncated` when not all is shown."""

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


class RelatedDocument(NamedTuple):
    """A related document, and how it is related."""

    related: RelatedMemory
    document: Document


class Graph:
    """Answers questions about the graph."""

    def __init__(self, index: IndexService, documents: DocumentReader) -> None:
        self._index, self._documents = index, documents
        self._lookup = Lookup(index, documents)
        self._relations = Relations(documents, self._lookup)

    async def query(
        self, reader: Reader, project: str | None, start: str | None = None, depth: int = 1, limit: int = MAX_NODES
    ) -> Drawing:
        """What is within `depth` steps (at most MAX_DEPTH) of a node, nearest first; without a start, the newest.

        A start that is not there, or that the reader can't see, gives an empty graph.
        """
        limit = max(0, min(limit, MAX_NODES))
        sketch = Sketch()
        await self._extend(sketch, reader, project, None if start is None else [start], limit)
        if start is None:
            totals = await self.stats(reader, project)
            drawing = _drawing(sketch, list(sketch.nodes), limit)
            return replace(
                drawing,
                total_nodes=max(sum(totals.nodes.values()), drawing.total_nodes),
                total_edges=max(sum(totals.edges.values()), drawing.total_edges),
                truncated=drawing.truncated or totals.truncated,
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
        """The totals by type, as the index counts them: of projects, sessions, files and concepts COUNTED at most.

        Of a project also its newest RELATIONS; those of all projects, and versions, are not counted.
        """
        allowed = key_scope(reader, project)
        memories = replace(allowed, kinds=["memory"])
        nodes = Counter({"memory": await self._index.ask_current(lambda index: index.count(memories))})
        edges, remaining, more = Counter[str](), COUNTED, False
        for name, edge in EDGES.items():
            within = memories if name == "concept" else allowed
            most = remaining + 1
            values = await self._index.ask_current(
                lambda index, name=name, within=within, most=most: index.linked_values(within, name, most)
            )
            values, more, remaining = values[:remaining], len(values) > remaining, max(0, remaining - len(values))
            for start in range(0, len(values), SLICE):
                some = [value for value in values[start : start + SLICE] if value]
                links = await self._index.ask_current(
                    lambda index, name=name, within=within, some=some: index.links(within, name, some)
                )
                nodes[name] += len(links)
                edges[edge] += sum(
                    link.memories if name == "session" else link.memories + link.episodes for link in links.values()
                )
            if more:
                break
        if project is not None:
            page = await self._relations.page(reader, project, None, RELATIONS)
            edges.update(item["relation"] for item in page.items)
            more = more or page.next is not None
        return Totals(dict(+nodes), dict(+edges), more)

    async def related(
        self, reader: Reader, name: str, max_hops: int = DEFAULT_HOPS, min_confidence: float = 0.0
    ) -> list[RelatedDocument]:
        """Related documents, direct or through others, most confident first; raises NotFound for the document.

        Walks along relations, and from version to version of a memory; not through what the reader can't see.
        """
        await self._lookup.document(name, reader)
        walk = Walk.start(name, max_hops)
        while walk.frontier:
            stated = [
                Edge(relation.source, relation.target, relation.relation, relation.confidence)
                for relation in await self._relations.of_documents(walk.frontier, reader)
            ]
            walk = walk.step([*stated, *await self._versions(walk.frontier, reader)])
        related = walk.related(min_confidence)
        existing = await self._readable([memory.id for memory in related], reader)
        return [RelatedDocument(memory, existing[memory.id]) for memory in related if memory.id in existing]

    async def _extend(
        self, sketch: Sketch, reader: Reader, project: str | None, around: Sequence[str] | None, limit: int
    ) -> None:
        """Draw what is next to these nodes, and the nodes themselves; without any, the newest there is."""
        allowed = key_scope(reader, project)
        nearby = await self._index.ask_current(lambda index: surroundings(index, allowed, around, limit + 1))
        sketch.cut |= nearby.more
        existing = await self._readable(around or (), reader)
        named = [document for name, document in existing.items() if is_memory(name)]
        memories = _in_project([*named, *await self._documents.readable(nearby.memories, reader, Memory)], project)
        for memory in memories:
            sketch.put(memory)
        for name in nearby.sessions:
            if node := named_node(name):
                sketch.nodes.setdefault(name, node)
        sketch.draw(nearby.links)
        ends = [memory.id for memory in memories]
        if around is not None:
            ends = [name for name in around if is_memory(name) or named_node(name)]
        relations = await self._relations.of_documents(ends, reader)
        links = [
            Link(relation.source, relation.target, relation.relation)
            for relation in relations
            if project in (None, relation.project)
        ]
        links += [Link(edge.source, edge.target, edge.relation) for edge in await self._versions(ends, reader)]
        others = {end for link in links for end in (link.source, link.target) if is_memory(end)} - sketch.nodes.keys()
        for memory in _in_project((await self._readable(sorted(others), reader)).values(), project):
            sketch.put(memory)
        sketch.draw(links)

    async def _versions(self, names: Iterable[str], reader: Reader) -> list[Edge]:
        existing = await self._readable([name for name in names if is_memory(name)], reader)
        links: dict[tuple[str, str], None] = {}
        for memory in existing.values():
            if isinstance(memory, Memory):
                links |= {(memory.id, memory.parent_id): None, (memory.superseded_by, memory.id): None}
                links |= {(memory.id, original): None for original in memory.condensed}
        pairs = [(newer, older) for newer, older in links if newer and older]
        existing |= await self._readable([end for pair in pairs for end in pair if end not in existing], reader)
        return [Edge(newer, older, "supersedes") for newer, older in pairs if newer in existing and older in existing]

    async def _readable(self, names: Sequence[str], reader: Reader) -> dict[str, Document]:
        documents = await self._lookup.documents(list(dict.fromkeys(names)), reader)
        return {
            located.document.id: located.document
            for located in documents
            if not isinstance(located.document, SupersededEvent)
        }


def _in_project(documents: Iterable[Document], project: str | None) -> list[Memory]:
    return [memory for memory in documents if isinstance(memory, Memory) and project in (None, memory.project)]


def _drawing(sketch: Sketch, names: Sequence[str], limit: int) -> Drawing:
    page = names[:limit]
    nodes = [sketch.nodes[name] for name in page]
    truncated = sketch.cut or len(names) > limit
    return Drawing(nodes, sketch.among(page), len(names), len(sketch.among(names)), truncated)
