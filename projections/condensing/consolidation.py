"""Consolidating: memories about what a project's observations have in common, facts, procedures.

Of the episodic memories about one agent and user the oldest are condensed, once there are many.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from ingest.commands.decide import Caller, CondenseMemories, Remember, ReviseMemory
from ingest.ids import DocumentId
from ingest.log.position import partition_of, project_route
from projections.condensing import consolidate as rules
from projections.condensing import memex
from projections.condensing.claims import CONSOLIDATED, FACT, PROCEDURE, SAME_CLAIM, Claim
from projections.condensing.evidence import PROJECT_MEMORIES, digest_of, fingerprint, is_made, newest
from projections.documents.access import Reader, may_read
from projections.documents.memories import EPISODIC, Memory, episodic_pair, memories
from projections.documents.observations import Observation, timeline
from projections.documents.rows import derived
from projections.documents.sessions import Summary, summaries
from projections.operations.current import Current, Writing

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
    important = [one for one in seen if one.importance >= rules.MIN_IMPORTANCE]
    known = _Known(await _made(current, public, [*important, *told], reader, project))
    writing, made = Writing(current, caller), 0
    if "memories" in parts and len(important) >= fewest_observations:
        topics = await asyncio.to_thread(rules.topics, important)
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
    newest_kept: Sequence[Memory],
    sources: Sequence[Observation | Summary],
    reader: Reader,
    project: str,
) -> list[Memory]:
    """The project's consolidated memories that this may revise: the newest, and those made of these sources."""
    documents = current.documents
    home = [partition_of(project_route(reader.tenant, project), documents.partitions)]
    names = await documents.members_of([derived(one.id) for one in sources], home)
    found = [one.document for one in await documents.find_all(list(dict.fromkeys(names)))]
    by_id = {one.id: one for one in (*newest_kept, *found) if isinstance(one, Memory) and may_read(one, reader)}
    return [
        one
        for one in by_id.values()
        if one.is_latest and one.visibility == "public" and one.project == project and is_made(one)
    ]


async def _write_topics(topics: Sequence[rules.Topic], known: "_Known", project: str, writing: Writing) -> int:
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
        for fact in rules.facts([digest_of(one) for one in in_time])
        if not any(Claim.of(fact.content).is_within(one) for one in claims)
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
    procedures = rules.procedures([one for one in told if not is_made(one)])
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
    threshold: int = memex.THRESHOLD,
    batch: int = memex.BATCH,
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
    found = [one for one in await documents.get([(partition, name) for name in names]) if isinstance(one, Memory)]
    alike = _largest([one for one in found if one.is_latest])
    if len(alike) < 2:
        return 0
    summary = await asyncio.to_thread(memex.summarise, [one.content for one in alike])
    first, originals = alike[0], [one.id for one in alike]
    command = CondenseMemories(
        event_id=f"condense:{fingerprint(*originals)}",
        project=first.project,
        agent_id=agent,
        user_id=user,
        originals=list(originals),
        content=memex.summary_text(len(alike), summary),
        visibility=first.visibility,
        shared_with=first.shared_with,
        owner=first.owner,
    )
    await current.give(command, Caller(tenant, "condense", agent))
    return len(alike)


def _audience(memory: Memory) -> Audience:
    return memory.project, memory.visibility, memory.owner, tuple(sorted(memory.shared_with))


def _largest(found: Sequence[Memory]) -> list[Memory]:
    """Those that most of them share their readers with, of equally many the oldest: a lone one holds up no others."""
    groups: dict[Audience, list[Memory]] = {}
    for one in found:
        groups.setdefault(_audience(one), []).append(one)
    return max(groups.values(), key=len, default=list[Memory]())
