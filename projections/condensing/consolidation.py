"""Consolidation: what many observations, sessions or memories have in common, by agentmemory's rules.

Guarantee: extractive: every sentence is quoted, and names the sources that say it. The same members give the same text,
so consolidating again changes nothing; one topic is one concept, so new members give a new version of the same memory.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest
from itertools import chain
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from ingest.commands.decide import Caller, CondenseMemories, Remember, ReviseMemory
from ingest.events.envelope import Trust
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
from projections.condensing.claims import SAME_CLAIM, Claim, claim_groups, claims_in, says
from projections.condensing.summaries import PROJECT_MEMORIES, Digest, digest_of, fingerprint, is_made, newest
from projections.documents.access import Reader, may_read
from projections.documents.memories import (
    CONSOLIDATED,
    EPISODIC,
    FACT,
    PROCEDURE,
    TITLE_CHARS,
    Memory,
    episodic_pair,
    memories,
)
from projections.documents.observations import Observation, timeline
from projections.documents.rows import derived
from projections.documents.sessions import Summary, summaries, untold
from projections.documents.trust import is_condensed, is_stated, lowest
from projections.operations.current import Current, Writing
from projections.queries.profile import about, written
from projections.search.similarity import SIMILAR_ABOVE

MIN_IMPORTANCE = 5
FEWEST_MEMBERS = 3
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


def find_topics(observations: Iterable[Observation], max_topics: int = TOPICS, top: int = 8) -> list[Topic]:
    """Returns what several important observations claim of a topic, the most frequent topic first, ties by concept.

    At least FEWEST_MEMBERS of them claim something of it; the `top` most important, the newest of equals, are quoted. A
    topic most of whose lines are under another topic already is left out, and so is one that only one is quoted for.
    """

    def claims(observation: Observation) -> list[str]:
        return [claim for claim in _facts_in(account(observation)) if len(claim) <= _LINE_CHARS]

    members = sorted((item for item in observations if item.importance >= MIN_IMPORTANCE), key=in_time)
    topics: list[Topic] = []
    quoted: set[str] = set()
    for concept, sentences in sorted(about(members, claims).items(), key=lambda item: (-len(item[1]), item[0])):
        if len(sentences) < FEWEST_MEMBERS:
            continue
        # the most important, the newest of equals; in time order
        best_members = nlargest(top, [(members[index].importance, index) for index in sentences])
        indexes = sorted(index for _, index in best_members)
        topic = _topic(concept, [members[index] for index in indexes], [sentences[index] for index in indexes])
        lines = topic.content.splitlines()[1:]
        if len(topic.sources) > 1 and 2 * len(quoted.intersection(lines)) <= len(lines):
            quoted.update(lines)
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
    claims: list[tuple[int, bool, str]] = []
    for index in range(len(summaries) - 1, max(-1, len(summaries) - 1 - NEWEST_SESSIONS), -1):
        summary = summaries[index]
        claims += [(index, True, claim) for decision in summary.decisions for claim in _facts_in(decision)]
        claims += [(index, False, claim) for claim in _facts_in(untold(summary.narrative, summary.told_by_tools))]
    ranked: list[Fact] = []
    for group in claim_groups([text for *_, text in claims], SAME_CLAIM):
        newest_wording = claims[group[0]][2]
        sessions = sorted({claims[index][0] for index in group})
        decided = any(claims[index][1] for index in group)
        if len(term_set(newest_wording)) >= _FEWEST_TERMS and (len(sessions) > 1 or decided):
            ranked.append(Fact(newest_wording, sessions))
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
    """The claims that address no person: a statement to one says nothing about the project."""
    return [claim for claim in claims_in(text) if _ADDRESSED.search(claim) is None]


def _topic(concept: str, members: Sequence[Observation], sentences: Sequence[Sequence[str]]) -> Topic:
    """The memory about a concept: its title, then the most central sentence of each member, once."""
    title = shortened(f"About {written(concept, chain(*sentences))}", TITLE_CHARS)
    leads = [lead for _, lead in leading(sentences)]
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
    """Returns the content of the memory that replaces `count` others."""
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
    observations = await newest(documents, timeline(tenant, project), Observation, PROJECT_OBSERVATIONS, reader)
    past = await newest(documents, summaries(tenant, project), Summary, SUMMARIES_READ, reader)
    in_time_order = [summary for summary in past[::-1] if is_stated(summary)]
    stored = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    public = [memory for memory in stored if memory.visibility == "public" and is_stated(memory)]
    important = [observation for observation in observations if observation.importance >= MIN_IMPORTANCE]
    existing = await _consolidated(current, public, [*important, *in_time_order], reader, project)
    commands: dict[Part, list[Remember]] = {part: [] for part in PARTS}
    if "memories" in parts and len(important) >= fewest_observations:
        commands["memories"] = await asyncio.to_thread(_topic_commands, list(filter(is_stated, important)))
    if "facts" in parts:
        commands["facts"] = _fact_commands(in_time_order, public)
    if "procedures" in parts:
        commands["procedures"] = _procedure_commands(public)
    writing, changed = Writing(current, caller), 0
    for part in PARTS:
        for command in commands[part]:
            command = replace(command, project=project, keep_duplicates=True)
            changed += await _write(command, existing, writing) and part == "memories"
    return Consolidated(
        memories=changed,
        facts=len(commands["facts"]),
        procedures=len(commands["procedures"]),
        observations=len(important),
        summaries=len(in_time_order),
        position=writing.position,
    )


async def _consolidated(
    current: Current,
    newest_memories: Sequence[Memory],
    sources: Sequence[Observation | Summary],
    reader: Reader,
    project: str,
) -> dict[DocumentId, Memory]:
    """The project's consolidated memories that this may revise: the newest, and those made of these sources.

    So no memory that an agent wrote is revised.
    """
    documents = current.documents
    home = [partition_of(project_route(reader.tenant, project), documents.partitions)]
    names = await documents.members_of([derived(source.id) for source in sources], home)
    located = [row.document for row in await documents.find_all(list(dict.fromkeys(names)))]
    candidates = [row for row in (*newest_memories, *located) if isinstance(row, Memory) and may_read(row, reader)]
    return {
        memory.id: memory
        for memory in candidates
        if memory.is_latest and memory.visibility == "public" and memory.project == project and is_made(memory)
    }


def _topic_commands(observations: Sequence[Observation]) -> list[Remember]:
    """One memory a topic; a new version of the one about the same concept."""
    trusts: dict[str, Trust] = {observation.id: observation.trust for observation in observations}
    return [
        Remember(
            event_id=f"consolidated:{fingerprint(topic.content, *sorted(topic.sources))}",
            content=topic.content,
            title=topic.title,
            tags=[CONSOLIDATED],
            concepts=[topic.concept],
            derived_from=topic.sources,
            trust=lowest(trusts[name] for name in topic.sources),
        )
        for topic in find_topics(observations)
    ]


def _fact_commands(in_time_order: Sequence[Summary], public: Iterable[Memory]) -> list[Remember]:
    """One memory a fact that no memory states already; a new version of the one that states nearly the same."""
    stated = [Claim.of(memory.content) for memory in public if memory.is_latest and not is_made(memory)]
    commands: list[Remember] = []
    for fact in facts_of([digest_of(summary) for summary in in_time_order]):
        claim, sources = Claim.of(fact.content), [str(in_time_order[index].id) for index in fact.sources]
        if not any(claim.is_within(other) for other in stated):
            event_id = f"fact:{fingerprint(fact.content, *sorted(sources))}"
            tags, trust = [FACT, CONSOLIDATED], lowest(in_time_order[index].trust for index in fact.sources)
            commands.append(
                Remember(event_id=event_id, content=fact.content, tags=tags, derived_from=sources, trust=trust)
            )
    return commands


def _procedure_commands(public: Sequence[Memory]) -> list[Remember]:
    """One memory a procedure; a new version of the one of the same name."""
    trusts: dict[str, Trust] = {memory.id: memory.trust for memory in public}
    return [
        Remember(
            event_id=f"procedure:{fingerprint(procedure.name, *procedure.steps, *sorted(procedure.sources))}",
            content="\n".join([procedure.name, *(f"{n}. {step}" for n, step in enumerate(procedure.steps, 1))]),
            title=procedure.name[:80],
            memory_type="procedural",
            tags=[PROCEDURE, CONSOLIDATED],
            derived_from=procedure.sources,
            trust=lowest(trusts[name] for name in procedure.sources),
        )
        for procedure in procedures_of([memory for memory in public if not is_made(memory)])
    ]


def _is_same(command: Remember, memory: Memory) -> bool:
    """Whether a consolidated memory is about the same as a new one.

    Concept, claim or name decide, never by how alike texts are as a whole: two topics may have nearly the same
    words.
    """
    if sorted(memory.tags) != sorted(command.tags):
        return False
    if FACT in command.tags:
        claim = Claim.of(command.content)
        return memory.content == command.content or claim.is_said_by(Claim.of(memory.content), SAME_CLAIM)
    return memory.title == command.title if PROCEDURE in command.tags else memory.concepts[:1] == command.concepts


async def _write(command: Remember, existing: dict[DocumentId, Memory], writing: Writing) -> bool:
    """Write a memory, as the next version of the one that it replaces, if any; False if that says it all already.

    That one leaves `existing`, so a run makes at most one new version of a memory.
    """
    old = next((memory for memory in existing.values() if _is_same(command, memory)), None)
    if old is None:
        await writing.give(command)
        return True
    del existing[old.id]
    if old.content == command.content and sorted(old.derived_from) == sorted(command.derived_from):
        return False
    revision = ReviseMemory(
        event_id=f"{command.event_id}:{old.id}",  # its text may return to what an older version said
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
        trust=command.trust,
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
        if isinstance(memory, Memory) and memory.is_latest and is_condensed(memory):
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
        trust=lowest(memory.trust for memory in alike),
    )
    await current.give(command, Caller(tenant, "condense", agent))
    return len(alike)
