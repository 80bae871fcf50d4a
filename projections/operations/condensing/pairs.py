"""Condensing the oldest episodic memories about one agent and user, once there are many."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from ingest.commands.decide import Caller
from ingest.commands.requests import CondenseMemories
from ingest.ids import DocumentId
from projections.condensing import memex as rules
from projections.documents.memories import EPISODIC, Memory, episodic_pair
from projections.operations.condensing.evidence import fingerprint
from projections.operations.current import Current

Audience: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Project, visibility, owner and whom a memory is shared with."""


class Pairs:
    """Keeps the episodic memories about an agent and a user few."""

    def __init__(self, current: Current) -> None:
        self._current = current

    async def condense_pair(
        self,
        partition: int,
        tenant: str,
        agent: str,
        user: str,
        *,
        threshold: int = rules.THRESHOLD,
        batch: int = rules.BATCH,
    ) -> int:
        """Condense the oldest episodic memories about one agent and user, when there are more than `threshold`.

        Returns how many were condensed. Two that do this at once make one summary: the event id comes from the
        originals, and the fold passes over a summary whose originals are not current any more.
        """
        documents = self._current.documents
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
        summary = await asyncio.to_thread(rules.summarise, [one.content for one in alike])
        first, originals = alike[0], [one.id for one in alike]
        command = CondenseMemories(
            event_id=f"condense:{fingerprint(*originals)}",
            project=first.project,
            agent_id=agent,
            user_id=user,
            originals=list(originals),
            content=rules.summary_text(len(alike), summary),
            visibility=first.visibility,
            shared_with=first.shared_with,
            owner=first.owner,
        )
        await self._current.give(command, Caller(tenant, "condense", agent))
        return len(alike)


def _audience(memory: Memory) -> Audience:
    return memory.project, memory.visibility, memory.owner, tuple(sorted(memory.shared_with))


def _largest(found: Sequence[Memory]) -> list[Memory]:
    """Those that most of them share their readers with, of equally many the oldest: a lone one holds up no others."""
    groups: dict[Audience, list[Memory]] = {}
    for one in found:
        groups.setdefault(_audience(one), []).append(one)
    return max(groups.values(), key=len, default=list[Memory]())
