"""What a model may answer, and what is kept of it: results are bounded in length and number, whatever it said. Pure."""

from collections.abc import Iterable

from msgspec import Struct

TITLE_CHARS = 120
NARRATIVE_CHARS = 4_000
STATEMENT_CHARS = 500
CONCEPT_CHARS = 80
PATH_CHARS = 512
NAME_CHARS = 120
RELATION_CHARS = 64
"""As long as a caller's own relation may be."""
MAX_STATEMENTS = 10
MAX_CONCEPTS = 15
MAX_FILES = 30
MAX_RELATIONS = 40


class CompressionReply(Struct, frozen=True):
    """The answer to the compress prompt, as it came."""

    title: str
    narrative: str
    facts: list[str] | None = None
    concepts: list[str] | None = None
    files: list[str] | None = None
    importance: float | None = None


class SummaryReply(Struct, frozen=True):
    """The answer to the summarise prompt, as it came."""

    title: str
    narrative: str
    decisions: list[str] | None = None
    files: list[str] | None = None
    concepts: list[str] | None = None


class RelationReply(Struct, frozen=True):
    """One relation as it came."""

    source: str
    relation: str
    target: str


class GraphReply(Struct, frozen=True):
    """The answer to the extract prompt, as it came."""

    relations: list[RelationReply]


class Compression(Struct, frozen=True, kw_only=True):
    """The short form of one observation. `importance` is 1 to 10; title and narrative are not empty."""

    title: str
    narrative: str
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    importance: int = 5
    model: str
    prompt_version: str


class ModelSummary(Struct, frozen=True, kw_only=True):
    """What a session was about; title and narrative are not empty."""

    title: str
    narrative: str
    decisions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    model: str
    prompt_version: str


class ExtractedRelation(Struct, frozen=True):
    """An edge between two named things; `relation` is in snake_case."""

    source: str
    relation: str
    target: str


class ExtractedGraph(Struct, frozen=True, kw_only=True):
    """Distinct relations, none of a thing to itself, however it is written; there may be none."""

    relations: tuple[ExtractedRelation, ...] = ()
    model: str
    prompt_version: str


def compression(reply: CompressionReply, model: str, prompt_version: str) -> Compression | None:
    """What is kept of a reply; None when it says nothing."""
    title, narrative = line(reply.title, TITLE_CHARS), text(reply.narrative, NARRATIVE_CHARS)
    if not title or not narrative:
        return None
    importance = 5 if reply.importance is None else round(min(10.0, max(1.0, reply.importance)))
    return Compression(
        title=title,
        narrative=narrative,
        facts=lines(reply.facts, STATEMENT_CHARS, MAX_STATEMENTS),
        concepts=lines(reply.concepts, CONCEPT_CHARS, MAX_CONCEPTS),
        files=lines(reply.files, PATH_CHARS, MAX_FILES),
        importance=importance,
        model=model,
        prompt_version=prompt_version,
    )


def summary(reply: SummaryReply, model: str, prompt_version: str) -> ModelSummary | None:
    """What is kept of a reply; None when it says nothing."""
    title, narrative = line(reply.title, TITLE_CHARS), text(reply.narrative, NARRATIVE_CHARS)
    if not title or not narrative:
        return None
    return ModelSummary(
        title=title,
        narrative=narrative,
        decisions=lines(reply.decisions, STATEMENT_CHARS, MAX_STATEMENTS),
        files=lines(reply.files, PATH_CHARS, MAX_FILES),
        concepts=lines(reply.concepts, CONCEPT_CHARS, MAX_CONCEPTS),
        model=model,
        prompt_version=prompt_version,
    )


def graph(reply: GraphReply, model: str, prompt_version: str) -> ExtractedGraph:
    """What is kept of a reply."""
    edges = (
        ExtractedRelation(
            line(edge.source, NAME_CHARS),
            line(edge.relation, RELATION_CHARS).lower().replace(" ", "_"),
            line(edge.target, NAME_CHARS),
        )
        for edge in reply.relations
    )
    told: dict[tuple[str, str, str], ExtractedRelation] = {}
    for edge in edges:
        source, target = edge.source.lower(), edge.target.lower()
        if source and edge.relation and target and source != target:
            told.setdefault((source, edge.relation, target), edge)
    return ExtractedGraph(relations=tuple(told.values())[:MAX_RELATIONS], model=model, prompt_version=prompt_version)


def text(said: str, limit: int) -> str:
    """A text of at most `limit` characters without NUL or blanks around it."""
    return said.replace("\0", "").strip()[:limit].rstrip()


def line(said: str, limit: int) -> str:
    """A text on one line, blanks made one."""
    return text(" ".join(said.split()), limit)


def lines(said: Iterable[str] | None, limit: int, count: int) -> tuple[str, ...]:
    """Distinct lines in order, empty ones dropped, `count` at most."""
    kept = dict.fromkeys(line(one, limit) for one in said or ())
    return tuple(one for one in kept if one)[:count]
