"""Consolidation: what many observations, sessions or memories have in common, by agentmemory's rules.

Guarantee: pure and extractive: of sentences that somebody said, each with the sources that say it. The same members
give the same text, so that consolidating again changes nothing; one topic is one concept, so that new members give
a new version of the same memory.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import chain
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from ingest.commands.decide import Caller, CondenseMemories, Remember, ReviseMemory
from ingest.ids import DocumentId
from ingest.log.position import Position, partition_of, project_route
from projections.compression.accounts import account, in_time
from projections.compression.sentences import (
    ALIKE,
    alike_groups,
    best,
    centrality,
    distinct,
    fitting,
    leading,
    pieces,
    shortened,
    statements,
    term_set,
)
from projections.condensing.claims import (
    CONSOLIDATED,
    FACT,
    PROCEDURE,
    SAME_CLAIM,
    Claim,
    claim_groups,
    claims_in,
    says,
)
from projections.condensing.profile import about, written
from projections.condensing.summaries import PROJECT_MEMORIES, Digest, digest_of, fingerprint, is_made, newest
from projections.documents.access import Reader, may_read
from projections.documents.memories import EPISODIC, TITLE_CHARS, Memory, episodic_pair, memories
from projections.documents.observations import Observation, timeline
from projections.documents.rows import derived
from projections.documents.sessions import Summary, summaries
from projections.operations.current import Current, Writing
from projections.search.similarity import SIMILAR_ABOVE

MIN_IMPORTANCE = 5
TOPICS = 10
CONTENT_CHARS = 1200
FACTS = 10
FEWEST_SESSIONS = 5
"""With fewer summaries, what recurs is still chance."""
NEWEST_SESSIONS = 20
STEPS = 10
PATTERN = "pattern"
"""The tag of a memory that agentmemory's clients saved with this type."""

_LINE_CHARS = 240
_FEWEST_TERMS = 3
"""A statement of fewer is in every session ("All tests pass.") and tells nothing."""
_ADDRESSED = re.compile(r"\b(?:you|your|yours|please)\b|\A\W*(?:yes|no|sure|thanks?),", re.IGNORECASE)
_STEP = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?P<step>.*\S)", re.MULTILINE)


class Topic(Struct, frozen=True):
    """A memory about what observations have in common; `sources` are those whose words it has."""

    concept: str
    title: str
    content: str
    sources: list[str]


class Fact(Struct, frozen=True):
    """A sentence, and the digests that state it, or nearly the same, by their place among those given."""

    content: str
    sources: list[int]


class Procedure(Struct, frozen=True):
    """How something is done, and the memories that say so, newest first."""

    name: str
    steps: list[str]
    sources: list[str]


def find_topics(
    observations: Iterable[Observation],
    min_importance: int = MIN_IMPORTANCE,
    min_members: int = 3,
    max_topics: int = TOPICS,
    top: int = 8,
) -> list[Topic]:
    """Returns what several important observations claim of a topic, the most spoken of first, ties by concept.

    At least `min_members` of them do; the `top` most important, the newest of equals, are told. A topic of which most
    is told under another already is left out, as is one that a single observation is left to tell of.
    """

    def claims(observation: Observation) -> list[str]:
        return [claim for claim in _facts_in(account(observation)) if len(claim) <= _LINE_CHARS]

    seen = sorted((item for item in observations if item.importance >= min_importance), key=in_time)
    topics: list[Topic] = []
    told_lines: set[str] = set()
    for concept, said in sorted(about(seen, claims).items(), key=lambda item: (-len(item[1]), item[0])):
        if len(said) < min_members:
            continue
        # the most important, the newest of equals; in time order
        indexes = sorted(index for _, index in nlargest(top, [(seen[index].importance, index) for index in said]))
        topic = _topic(concept, [seen[index] for index in indexes], [said[index] for index in indexes])
        lines = topic.content.splitlines()[1:]
        if len(topic.sources) > 1 and 2 * len(told_lines.intersection(lines)) <= len(lines):
            told_lines.update(lines)
            topics.append(topic)
            if len(topics) == max_topics:
                break
    return topics


def facts_of(summaries: Sequence[Digest]) -> list[Fact]:
    """Returns what holds across sessions: what at least two digests state, and what was decided; the surest first.

    `summaries` are in time order; the newest 20 count, fewer than five give nothing. A fact is in its newest wording.
    """
    if len(summaries) < FEWEST_SESSIONS:
        return []
    said: list[tuple[int, bool, str]] = []
    for index in range(len(summaries) - 1, max(-1, len(summaries) - 1 - NEWEST_SESSIONS), -1):
        summary = summaries[index]
        said += [(index, True, claim) for decision in summary.decisions for claim in _facts_in(decision)]
        said += [(index, False, claim) for claim in _facts_in(summary.narrative)]
    sets = [term_set(text) for *_, text in said]
    ranked: list[Fact] = []
    for group in claim_groups([text for *_, text in said], SAME_CLAIM):
        sessions = sorted({said[index][0] for index in group})
        decided = any(said[index][1] for index in group)
        if len(sets[group[0]]) >= _FEWEST_TERMS and (len(sessions) > 1 or decided):
            ranked.append(Fact(said[group[0]][2], sessions))
    return sorted(ranked, key=lambda fact: -len(fact.sources))[:FACTS]


def procedures_of(memories: Iterable[Memory]) -> list[Procedure]:
    """Returns how things are done, from procedural and pattern memories that alike were said in at least two sessions.

    Superseded versions belong into `memories`: saying a pattern again supersedes it, and the old version is the proof
    that another session said it. A group without a latest version gives nothing. The most often said first.
    """
    newest_first = sorted(
        (memory for memory in memories if memory.memory_type == "procedural" or PATTERN in map(str.lower, memory.tags)),
        key=lambda memory: Position.parse(memory.position),
        reverse=True,
    )
    ranked: list[tuple[int, Procedure]] = []
    for group in alike_groups([term_set(memory.content) for memory in newest_first], SIMILAR_ABOVE):
        members = [newest_first[index] for index in group]
        sessions = {(memory.project, memory.session_id) for memory in members if memory.session_id}
        latest = next((memory for memory in members if memory.is_latest), None)
        if len(sessions) > 1 and latest is not None:
            # its list items as steps, else its sentences; its title is no step unless it is all there is
            name = shortened(latest.title or latest.content, TITLE_CHARS)
            items = [shortened(match["step"], _LINE_CHARS) for match in _STEP.finditer(latest.content)]
            sentences = items if len(items) > 1 else statements(latest.content)
            steps = [step for step in sentences if step != name] or [shortened(latest.content, _LINE_CHARS)]
            ranked.append((len(sessions), Procedure(name, steps[:STEPS], [memory.id for memory in members])))
    return [procedure for _, procedure in sorted(ranked, key=lambda item: -item[0])]


def _facts_in(text: str) -> list[str]:
    """The claims that address nobody: a statement to one person says nothing about the project."""
    return [claim for claim in claims_in(text) if _ADDRESSED.search(claim) is None]


def _topic(concept: str, members: Sequence[Observation], said: Sequence[Sequence[str]]) -> Topic:
    """The memory about a concept: its title, then the most central sentence of each member, said once."""
    title = shortened(f"About {written(concept, chain(*said))}", TITLE_CHARS)
    leads = [lead for _, lead in leading(said)]
    lines = [f"- {leads[group[0]]}" for group in claim_groups(leads, SAME_CLAIM)]
    content = "\n".join(fitting([title, *lines], CONTENT_CHARS, "\n"))
    sources: list[str] = [member.id for member, lead in zip(members, leads, strict=True) if says(content, lead)]
    return Topic(concept, title, content, sources)


THRESHOLD = 100
"""Episodic memories of an agent and user that need no summary; one more does (memex's default)."""
BATCH = 50
"""The oldest memories condensed at a time (memex's default)."""
MAX_SENTENCES = 5
_SHORT_PIECE = 20
"""Characters; a piece no longer than this is no sentence."""
_FALLBACK_MEMORIES = 5
"""Joined as they are when no memory has a sentence."""

_WORD = re.compile(r"\b[a-zA-Z]{3,}\b")


def summarise(texts: Sequence[str], max_sentences: int = MAX_SENTENCES) -> str:
    """Returns the most central sentences of the memories, in their order, joined by spaces.

    When no memory has a sentence longer than 20 characters it is the first five memories themselves, joined by ". ".
    """
    sentences = [piece for text in texts for piece in pieces(text) if len(piece) > _SHORT_PIECE]
    if not sentences:
        return ". ".join(texts[:_FALLBACK_MEMORIES])
    words = [[word.lower() for word in _WORD.findall(sentence)] for sentence in sentences]
    selected = distinct(list(map(frozenset, words)), ALIKE)
    if len(selected) > max_sentences:
        central = best(centrality([words[index] for index in selected]), max_sentences)
        selected = [selected[rank] for rank in central]
    return " ".join(sentences[index] for index in selected)


def summary_text(count: int, summary: str) -> str:
    """Returns the content of the memory that stands for `count` others."""
    return f"[Summary of {count} memories] {summary}"


PROJECT_OBSERVATIONS = 1_000
SUMMARIES_READ = 20
Part = Literal["memories", "facts", "procedures"]
PARTS: tuple[Part, ...] = get_args(Part)
"""What one consolidation makes."""


class Consolidated(Struct, frozen=True, kw_only=True):
    """How much was consolidated: memories about concepts, facts, procedures; and of how much."""

    memories: int
    facts: int
    procedures: int
    observations: int
    summaries: int
    position: str


async def consolidate(
    current: Current,
    reader: Reader,
    project: str,
    caller: Caller,
    *,
    fewest_observations: int = 10,
    parts: Collection[Part] = PARTS,
) -> Consolidated:
    """Memories about what a project's observations have in common, facts of its summaries, its procedures."""
    await current.settle()
    documents, tenant = current.documents, reader.tenant
    seen = await newest(documents, timeline(tenant, project), Observation, PROJECT_OBSERVATIONS, reader)
    told = await newest(documents, summaries(tenant, project), Summary, SUMMARIES_READ, reader)
    kept = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    public = [one for one in kept if one.visibility == "public"]
    important = [one for one in seen if one.importance >= MIN_IMPORTANCE]
    known = _Known(await _made(current, public, [*important, *told], reader, project))
    writing, made = Writing(current, caller), 0
    if "memories" in parts and len(important) >= fewest_observations:
        topics = await asyncio.to_thread(find_topics, important)
        made = await _write_topics(topics, known, project, writing)
    said = [one.content for one in public if one.is_latest and not is_made(one)]
    facts = await _write_facts(told, said, known, project, writing) if "facts" in parts else 0
    procedures = await _write_procedures(public, known, project, writing) if "procedures" in parts else 0
    return Consolidated(
        memories=made,
        facts=facts,
        procedures=procedures,
        observations=len(important),
        summaries=len(told),
        position=writing.position,
    )


async def _made(
    current: Current,
    newest_memories: Sequence[Memory],
    sources: Sequence[Observation | Summary],
    reader: Reader,
    project: str,
) -> list[Memory]:
    """The project's consolidated memories that this may revise: the newest, and those made of these sources."""
    documents = current.documents
    home = [partition_of(project_route(reader.tenant, project), documents.partitions)]
    names = await documents.members_of([derived(source.id) for source in sources], home)
    documents_made = [row.document for row in await documents.find_all(list(dict.fromkeys(names)))]
    candidates = [row for row in (*newest_memories, *documents_made) if isinstance(row, Memory)]
    by_id = {memory.id: memory for memory in candidates if may_read(memory, reader)}
    return [
        memory
        for memory in by_id.values()
        if memory.is_latest and memory.visibility == "public" and memory.project == project and is_made(memory)
    ]


async def _write_topics(topics: Sequence[Topic], known: "_Known", project: str, writing: Writing) -> int:
    """One memory a topic; a new version of the one about the same concept, if there is one."""
    written = 0
    for topic in topics:
        written += await known.write(
            Remember(
                event_id=f"consolidated:{fingerprint(topic.content, *sorted(topic.sources))}",
                project=project,
                content=topic.content,
                title=topic.title,
                tags=[CONSOLIDATED],
                concepts=[topic.concept],
                derived_from=topic.sources,
            ),
            known.find([CONSOLIDATED], lambda one, concept=topic.concept: one.concepts[:1] == [concept]),
            writing,
        )
    return written


async def _write_facts(
    told: Sequence[Summary], said: Iterable[str], known: "_Known", project: str, writing: Writing
) -> int:
    """One memory a fact that no memory says already; a new version of the one that says nearly the same, if any."""
    in_time, claims = list(reversed(told)), list(map(Claim.of, said))
    facts = [
        fact
        for fact in facts_of([digest_of(one) for one in in_time])
        if not any(Claim.of(fact.content).is_within(claim) for claim in claims)
    ]
    for fact in facts:
        sources = [in_time[place].id for place in fact.sources]
        command = Remember(
            event_id=f"fact:{fingerprint(fact.content, *sorted(sources))}",
            project=project,
            content=fact.content,
            tags=[FACT, CONSOLIDATED],
            derived_from=list(sources),
        )
        await known.write(command, known.find(command.tags, _saying(fact.content)), writing)
    return len(facts)


async def _write_procedures(told: Sequence[Memory], known: "_Known", project: str, writing: Writing) -> int:
    """One memory a procedure; a new version of the one of the same name, if there is one."""
    procedures = procedures_of([one for one in told if not is_made(one)])
    for procedure in procedures:
        command = Remember(
            event_id=f"procedure:{fingerprint(procedure.name, *procedure.steps, *sorted(procedure.sources))}",
            project=project,
            content="\n".join([procedure.name, *(f"{n}. {step}" for n, step in enumerate(procedure.steps, 1))]),
            title=procedure.name[:80],
            memory_type="procedural",
            tags=[PROCEDURE, CONSOLIDATED],
            derived_from=list(procedure.sources),
        )
        named = known.find(command.tags, lambda one, title=command.title: one.title == title)
        await known.write(command, named, writing)
    return len(procedures)


def _saying(content: str) -> Callable[[Memory], bool]:
    claim = Claim.of(content)
    return lambda one: one.content == content or claim.is_said_by(Claim.of(one.content), SAME_CLAIM)


class _Known:
    """The consolidated memories that a run may make new versions of, each of them once.

    Which one that is, is told by what it is about and never by how alike texts are as a whole: two topics may be in
    nearly the same words. So none of them takes the place of another, nor of what somebody wrote.
    """

    def __init__(self, made: Iterable[Memory]) -> None:
        self._made = {one.id: one for one in made}

    def find(self, tags: Sequence[str], wanted: Callable[[Memory], bool]) -> Memory | None:
        """The first that has just these tags and is wanted."""
        return next((one for one in self._made.values() if sorted(one.tags) == sorted(tags) and wanted(one)), None)

    async def write(self, command: Remember, old: Memory | None, writing: Writing) -> bool:
        """Write a memory, as the next version of `old` if there is one; False where that says it all already."""
        if old is None:
            await writing.give(replace(command, keep_duplicates=True))
            return True
        del self._made[old.id]
        if old.content == command.content and sorted(old.derived_from) == sorted(command.derived_from):
            return False
        revision = ReviseMemory(
            event_id=f"{command.event_id}:{old.id}",  # what it says may come back to what an older version said
            project=command.project,
            memory=old.id,
            content=command.content,
            memory_type=old.memory_type,
            purpose=old.purpose,
            title=command.title,
            tags=old.tags,
            concepts=old.concepts,
            importance=old.importance,
            owner=old.owner,
            keep_duplicates=True,
            derived_from=command.derived_from,
        )
        await writing.give(revision)
        return True


Audience: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Project, visibility, owner and whom a memory is shared with."""


async def condense_pair(
    current: Current,
    partition: int,
    tenant: str,
    agent: str,
    user: str,
    *,
    threshold: int = THRESHOLD,
    batch: int = BATCH,
) -> int:
    """Condense the oldest episodic memories about one agent and user, when there are more than `threshold`.

    Returns how many were condensed. Two that do this at once make one summary: the event id comes from the
    originals, and the fold passes over a summary whose originals are not current any more.
    """
    documents = current.documents
    prefix = episodic_pair(tenant, agent, user).encode()
    low, high = b"[" + prefix, b"(" + prefix + b"\xff"
    # counted and read at once: a summary of another worker may be folded at any moment
    count, oldest = await documents.first(EPISODIC, partition, low, high, batch)
    if count <= threshold:
        return 0
    names = [DocumentId(member.rpartition("|")[2]) for member in oldest]
    groups: dict[Audience, list[Memory]] = {}
    for memory in await documents.get([(partition, name) for name in names]):
        if isinstance(memory, Memory) and memory.is_latest:
            audience = memory.project, memory.visibility, memory.owner, tuple(sorted(memory.shared_with))
            groups.setdefault(audience, []).append(memory)
    # the largest group with the same readers, of equally large ones the oldest: a lone memory holds up no others
    alike = max(groups.values(), key=len, default=list[Memory]())
    if len(alike) < 2:
        return 0
    summary = await asyncio.to_thread(summarise, [memory.content for memory in alike])
    first, originals = alike[0], [memory.id for memory in alike]
    command = CondenseMemories(
        event_id=f"condense:{fingerprint(*originals)}",
        project=first.project,
        agent_id=agent,
        user_id=user,
        originals=list(originals),
        content=summary_text(len(alike), summary),
        visibility=first.visibility,
        shared_with=first.shared_with,
        owner=first.owner,
    )
    await current.give(command, Caller(tenant, "condense", agent))
    return len(alike)
