"""Consolidating a project: memories about what its observations have in common, facts, procedures."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Literal, get_args

from msgspec import Struct

from ingest.commands.decide import Caller
from ingest.commands.requests import Remember, ReviseMemory
from projections.access import Reader
from projections.condense import consolidate as rules
from projections.documents.document import memories, summaries, timeline
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.summaries import Summary
from projections.operations.condensing.evidence import PROJECT_MEMORIES, digest_of, fingerprint, newest
from projections.operations.condensing.writing import Writing
from projections.operations.current import Current

PROJECT_OBSERVATIONS = 1_000
SUMMARIES_READ = 20
CONSOLIDATED = "consolidated"
"""Tag of memories that consolidating made."""
MAX_SOURCES = 200
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


class Consolidation:
    """Consolidates projects."""

    def __init__(self, current: Current) -> None:
        self._current = current

    async def consolidate(
        self,
        reader: Reader,
        project: str,
        caller: Caller,
        *,
        fewest_observations: int = 10,
        parts: Collection[Part] = PARTS,
    ) -> Consolidated:
        """Memories about what a project's observations have in common, facts of its summaries, its procedures."""
        await self._current.settle()
        documents, tenant = self._current.documents, reader.tenant
        seen = await newest(documents, timeline(tenant, project), Observation, PROJECT_OBSERVATIONS, reader)
        told = await newest(documents, summaries(tenant, project), Summary, SUMMARIES_READ, reader)
        kept = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
        public = [one for one in kept if one.visibility == "public"]
        important = [one for one in seen if one.importance >= rules.MIN_IMPORTANCE]
        writing, made = Writing(self._current, caller), 0
        if "memories" in parts and len(important) >= fewest_observations:
            groups = await asyncio.to_thread(rules.groups, important)
            made = await _write_groups(groups, public, project, writing)
        facts = await _write_facts(told, project, writing) if "facts" in parts else 0
        procedures = await _write_procedures(public, project, writing) if "procedures" in parts else 0
        return Consolidated(
            memories=made,
            facts=facts,
            procedures=procedures,
            observations=len(important),
            summaries=len(told),
            position=writing.position,
        )


async def _write_groups(groups: Sequence[rules.Group], known: Sequence[Memory], project: str, writing: Writing) -> int:
    """One memory a group; a new version of the one about the same concept, if there is one."""
    current = {one.title: one for one in known if one.is_latest and CONSOLIDATED in one.tags}
    written = 0
    for group in groups:
        title, content = rules.memory_of(group)
        sources = [one.id for one in group.members]
        old = current.get(title)
        if old is not None and old.content == content:
            continue
        event_id = f"consolidated:{fingerprint(content, *sorted(sources))}"
        command: Remember | ReviseMemory
        if old is None:
            command = Remember(
                event_id=event_id,
                project=project,
                content=content,
                title=title,
                tags=[CONSOLIDATED],
                concepts=[group.concept],
                derived_from=list(sources),
            )
        else:
            command = ReviseMemory(
                event_id=event_id,
                project=project,
                memory=old.id,
                content=content,
                memory_type=old.memory_type,
                purpose=old.purpose,
                title=title,
                tags=old.tags,
                concepts=old.concepts,
                importance=old.importance,
                owner=old.owner,
                derived_from=list(dict.fromkeys([*old.derived_from, *sources]))[-MAX_SOURCES:],
            )
        await writing.give(command)
        written += 1
    return written


async def _write_facts(told: Sequence[Summary], project: str, writing: Writing) -> int:
    """One memory a fact."""
    evidence = sorted(one.position for one in told)
    facts = rules.facts([digest_of(one) for one in reversed(told)])
    for fact in facts:
        command = Remember(
            event_id=f"fact:{fingerprint(fact, *evidence)}",
            project=project,
            content=fact,
            tags=["fact", CONSOLIDATED],
            derived_from=[one.id for one in told],
        )
        await writing.give(command)
    return len(facts)


async def _write_procedures(known: Sequence[Memory], project: str, writing: Writing) -> int:
    """One memory a procedure."""
    procedures = rules.procedures([one for one in known if CONSOLIDATED not in one.tags])
    for procedure in procedures:
        command = Remember(
            event_id=f"procedure:{fingerprint(procedure.name, *procedure.steps, *sorted(procedure.sources))}",
            project=project,
            content="\n".join([procedure.name, *(f"{n}. {step}" for n, step in enumerate(procedure.steps, 1))]),
            title=procedure.name[:80],
            memory_type="procedural",
            tags=["procedure", CONSOLIDATED],
            derived_from=list(procedure.sources),
        )
        await writing.give(command)
    return len(procedures)
