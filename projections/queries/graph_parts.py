"""What the graph is made of: nodes and links, how a memory is drawn, and what the index knows of the rest.

The functions that take an index run in the index thread.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from ingest.ids import MEMORY
from projections.documents.memories import Memory
from projections.queries.near import Place, newest, places
from projections.search.filters import BitMap, facet, ordinals
from projections.search.replica import IndexReplica
from projections.search.search import Filter, matches

OBSERVATIONS = 1_000
"""The newest so many tell, at each step, which sessions touched what."""
COUNTED = 100_000
"""Facet values looked at when everything is counted, about a second's work; the rest is left out."""
NAMED = ("project", "session", "file", "concept")
"""Node types whose nodes are named by what they are; also the facets that know them."""


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
        self.draw(star(memory))

    def draw(self, links: Iterable[Link]) -> None:
        """Draw links between named nodes and memories that were put; others are left out."""
        for link in links:
            ends = [self.nodes.get(name) or named_node(name) for name in (link.source, link.target)]
            known = [node for node in ends if node is not None]
            if len(known) == len(ends):
                self.nodes.update((node.id, node) for node in known)
                self.links[link] = None

    def name(self, name: str) -> None:
        """Draw a node that is named by what it is."""
        node = named_node(name)
        if node is not None:
            self.nodes.setdefault(name, node)

    def next_to(self, names: Iterable[str]) -> list[str]:
        """The nodes at the other ends of these nodes' links, in the order they were drawn."""
        near = set(names)
        far = [other for one in self.links for other in (one.target, one.source) if {one.source, one.target} & near]
        return [name for name in dict.fromkeys(far) if name not in near]

    def among(self, names: Iterable[str]) -> list[Link]:
        """The links between these nodes."""
        kept = set(names)
        return [one for one in self.links if one.source in kept and one.target in kept]


def is_memory(name: str) -> bool:
    """Whether a node id is a memory's."""
    return name.startswith(f"{MEMORY}_")


def named_node(name: str) -> Node | None:
    """The node of an id that says what it is; None for any other."""
    kind, colon, label = name.partition(":")
    return Node(name, kind, label) if colon and label and kind in NAMED else None


def star(memory: Memory) -> Iterator[Link]:
    """What one memory is in, about and part of."""
    if memory.project:
        yield Link(memory.id, f"project:{memory.project}", "in_project")
    if memory.session_id:
        yield Link(memory.id, f"session:{memory.session_id}", "in_session")
    yield from (Link(memory.id, f"file:{path}", "touches") for path in memory.files if path)
    yield from (Link(memory.id, f"concept:{name}", "about") for name in memory.concepts if name)


class Surroundings(NamedTuple):
    """What is next to some nodes: memories, newest first, sessions and what they touched; `more` if that is not all."""

    memories: list[Place]
    sessions: list[str]
    links: list[Link]
    more: bool


def surroundings(
    index: IndexReplica, allowed: Filter, now_ms: int, around: Sequence[str] | None, count: int
) -> Surroundings:
    """What the index knows to be next to some nodes, without any everything: of memories the newest `count`."""
    matching = matches(index, allowed, now_ms)
    if around is not None:
        matching &= index.facets.any_of(_facet_of(node) for node in map(named_node, around) if node is not None)
    memories, observations = (
        ordinals(matching & index.facets.of(facet("kind", kind))) for kind in ("memory", "observation")
    )
    sessions: dict[str, None] = {}
    links: dict[Link, None] = {}
    for ordinal in map(int, newest(index, observations, OBSERVATIONS)):
        session, told = _sighted(index.facets_of[ordinal])
        sessions[session] = None
        links.update(dict.fromkeys(told))
    more = len(memories) > count or len(observations) > OBSERVATIONS
    return Surroundings(places(index, newest(index, memories, count)), list(sessions), list(links), more)


class Seen(NamedTuple):
    """The documents that are counted."""

    memories: BitMap
    observations: BitMap


def seen(index: IndexReplica, allowed: Filter, now_ms: int) -> Seen:
    """The documents that a filter allows, as far as the graph is made of them."""
    matching = matches(index, allowed, now_ms)
    return Seen(
        matching & index.facets.of(facet("kind", "memory")), matching & index.facets.of(facet("kind", "observation"))
    )


def facet_values(index: IndexReplica) -> tuple[list[str], bool]:
    """The facet values that may be nodes, COUNTED at most, and whether there are more."""
    # Facets has no public way to say which values there are.
    keys = index.facets._bitmaps  # pyright: ignore[reportPrivateUsage]
    leads = tuple(f"{name}\x1f" for name in NAMED)
    found = list(islice((key for key in keys if key.startswith(leads)), COUNTED + 1))
    return found[:COUNTED], len(found) > COUNTED


def count(index: IndexReplica, documents: Seen, values: Sequence[str]) -> list[tuple[str, str, int]]:
    """For these facet values that are nodes: the node's type, the type of the edges it ends, how many there are."""
    found: list[tuple[str, str, int]] = []
    for value in values:
        name, _, said = value.partition("\x1f")
        members = index.facets.of(value)
        memories = members.intersection_cardinality(documents.memories)
        watched = BitMap() if name == "concept" else members & documents.observations
        if not said or not (memories or watched):
            continue
        match name:
            case "file":
                found.append((name, "touches", memories + _sessions(index, watched)))
            case "project":
                found.append((name, "in_project", memories + _sessions(index, watched)))
            case "session":
                found.append((name, "in_session", memories))
            case _:
                found.append((name, "about", memories))
    return found


def _sessions(index: IndexReplica, observations: BitMap) -> int:
    """In how many sessions these observations were made: a session's observations are an episode."""
    if len(observations) <= 1:
        return len(observations)
    return len(set(index.episode.values[ordinals(observations)].tolist()))


def _facet_of(node: Node) -> str:
    return facet(node.type, node.label)


def _sighted(keys: Sequence[str]) -> tuple[str, list[Link]]:
    """The session of an observation with these facet values, and what it tells of that."""
    values = [(name, value) for name, _, value in (key.partition("\x1f") for key in keys) if value]
    session = next((f"session:{value}" for name, value in values if name == "session"), "")
    types = {"project": "in_project", "file": "touches"}
    return session, [Link(session, f"{name}:{value}", types[name]) for name, value in values if name in types]
