"""Forgetting what has had its time, when somebody asks for it: upkeep forgets expired memories by itself, and no more.

agentmemory's sweep also takes the title of the newest from the older of two memories that say the same. Here saving
does that, so a sweep finds none.
"""

from datetime import timedelta
from typing import NamedTuple

from ingest.commands.decide import Caller
from ingest.log.position import Token
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader
from projections.documents.observations import Observation
from projections.documents.rows import derived
from projections.documents.summaries import summary_id
from projections.operations.current import Current
from projections.operations.forget import Forgetting
from projections.queries import lookup
from projections.queries.browse import Browse

KEPT = timedelta(days=180)
"""How long an observation is kept whatever it says."""
UNIMPORTANT = 2
MOST = 200
"""Documents of each kind that one sweep forgets."""


class Swept(NamedTuple):
    """What was, or would be, forgotten: ids of memories and observations."""

    expired: list[str]
    unimportant: list[str]
    position: str


class Sweep:
    """Forgets expired memories and old observations that hardly mattered."""

    def __init__(self, current: Current, browse: Browse, forgetting: Forgetting, clock: Clock = system_clock) -> None:
        self._current, self._browse, self._forgetting, self._clock = current, browse, forgetting, clock

    async def run(self, reader: Reader, caller: Caller, *, dry_run: bool) -> Swept:
        """Forget what the reader may see of it; with `dry_run`, only say what that would be.

        An observation stays of which something was made that a forgetting would take along.
        """
        memories = await self._browse.found(lookup.expired, reader, None, MOST, kinds=["memory"])
        until_ms = to_ms(self._clock() - KEPT)
        old = await self._browse.found(
            lookup.unimportant, reader, None, MOST, UNIMPORTANT, kinds=["observation"], to_ms=until_ms
        )
        expired: list[str] = [one.id for one in memories]
        unimportant: list[str] = [
            one.id for one in old if isinstance(one, Observation) and not await self._is_source(one)
        ]
        token = Token()
        if not dry_run:
            for names, reason in ((expired, "expired"), (unimportant, "old and unimportant")):
                if names:
                    gone = await self._forgetting.documents(names, reader, caller, reason=reason)
                    token.include_all(Token.parse(gone.position) if gone.position else {})
        return Swept(expired, unimportant, str(token))

    async def _is_source(self, seen: Observation) -> bool:
        listings = [derived(seen.id), derived(summary_id(seen.session))]
        return bool(await self._current.documents.members_of(listings, range(self._current.documents.partitions)))
