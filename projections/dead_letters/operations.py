"""What is done about dead letters: trying them once more, or saying that nobody wants them applied.

Redriving is asked for here and done by the partition's runner. Discarding changes no document, so it is done here, in a
transaction that fails and is repeated when the letter, a request to redrive it, or a rebuild moves meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import BeingRebuilt, CommandRejected, NotFound, Overloaded
from ingest.events.envelope import Envelope, Event, as_json_object, encode
from ingest.events.subject import EventErased
from ingest.log.event_log import EventLog, Stored, entry_at
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position, Token
from ingest.log.redis_log import stub_member
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client, Transaction
from ingest.secrets.clean import clean_agent
from ingest.secrets.scrub import scrub_text
from projections.dead_letters.queries import DeadLetters, LogPlace, Selection, State
from projections.dead_letters.records import (
    DeadLetter,
    Discarded,
    dead_letter,
    queue_count,
    queue_discarded,
    queue_removal,
)
from projections.documents.access import Reader
from projections.rebuilding.rebuilds import Rebuilds

MAX_SELECTED = 1_000
"""Letters that one request redrives or discards; it then says where to go on."""
STATES: tuple[State, ...] = get_args(State)
TRIES = 50
"""Of a discard whose partition goes on parking; each loses to one letter that was parked meanwhile."""


class Done(Struct, frozen=True, kw_only=True):
    """The letters that a request was about, and the cursor of the others; None when there are none."""

    positions: list[str]
    next: str | None = None


class DeadLetterOperations:
    """Redrives and discards; asking twice does no more than asking once."""

    def __init__(self, redis: Client, log: EventLog, letters: DeadLetters, clock: Clock = system_clock) -> None:
        self._redis, self._log, self._letters, self._clock = redis, log, letters, clock
        self._rebuilds = Rebuilds(redis, clock)

    async def redrive(self, place: LogPlace, reader: Reader) -> Done:
        """Ask the runner to try one letter; a discarded one is none any more then. Raises NotFound.

        Raises CommandRejected for one whose event was erased.
        """
        found = await self._letters.find(place, reader)
        if found.discarded is not None and found.discarded.erased:
            raise CommandRejected(f"the event at {place} was erased when it was discarded", "position")
        await self._request(place)
        return Done(positions=[str(place)])

    async def redrive_all(self, wanted: Selection, reader: Reader) -> Done:
        """Ask for all that are selected, MAX_SELECTED at a time, in the order of the log."""
        found = await self._letters.select(replace(wanted, state="parked"), reader, MAX_SELECTED)
        for one in found.letters:
            await self._request(one.place)
        return Done(positions=[str(one.place) for one in found.letters], next=found.next)

    async def discard(
        self, place: LogPlace, reader: Reader, *, reason: str, agent_id: str, erase: bool = False
    ) -> Done:
        """Discard one letter; with `erase`, also what its event said, which can still be done to a discarded one.

        Raises NotFound; CommandRejected while it is asked to be redriven; BeingRebuilt.
        """
        found = await self._letters.find(place, reader)
        said = self._discarding(reason, agent_id, erase)
        if found.discarded is not None and (found.discarded.erased or not erase):
            return Done(positions=[str(place)])
        await self._discard(place, said, found.discarded)
        return Done(positions=[str(place)])

    async def discard_all(
        self, wanted: Selection, reader: Reader, *, reason: str, agent_id: str, erase: bool = False
    ) -> Done:
        """Discard all that are selected, MAX_SELECTED at a time."""
        found = await self._letters.select(replace(wanted, state="parked"), reader, MAX_SELECTED)
        said = self._discarding(reason, agent_id, erase)
        for one in found.letters:
            await self._discard(one.place, said, None)
        return Done(positions=[str(one.place) for one in found.letters], next=found.next)

    async def erase_all(
        self, takes: Callable[[Mapping[str, Any]], bool], until: Token, tenant: str, *, reason: str, agent_id: str
    ) -> int:
        """Discard and erase every letter up to `until` whose event is taken; returns how many events that erased."""
        reader, erased = Reader(tenant, operator=True), 0
        for state in STATES:
            cursor: str | None = None
            while True:
                found = await self._letters.select(Selection(state=state, cursor=cursor), reader, MAX_SELECTED)
                for one in found.letters:
                    if one.event is None or (one.discarded is not None and one.discarded.erased):
                        continue
                    if not takes(one.event.event) or one.place.position > until.get(one.place.partition, START):
                        continue
                    await self.discard(one.place, reader, reason=reason, agent_id=agent_id, erase=True)
                    erased += 1
                if found.next is None:
                    break
                cursor = found.next
        return erased

    def _discarding(self, reason: str, agent_id: str, erase: bool) -> "_Discarding":
        agent = clean_agent(agent_id, "replace")
        return _Discarding(reason=scrub_text(reason), agent_id=agent, at=self._clock(), erase=erase)

    async def _request(self, place: LogPlace) -> None:
        # the runner takes away a request whose letter has gone meanwhile
        await self._redis.zadd(PartitionKeys(place.partition).redrive, {place.position.sort_key: 0})

    async def _discard(self, place: LogPlace, said: "_Discarding", known: Discarded | None) -> None:
        keys = PartitionKeys(place.partition)
        for _ in range(TRIES):
            async with self._redis.pipeline(transaction=True) as pipe:
                await self._queue_discard(pipe, keys, place, said, known)
                try:
                    await pipe.execute()
                    return
                except WatchError:
                    continue
        raise Overloaded(f"partition {place.partition} changes too fast to discard {place}; try again")

    async def _queue_discard(
        self, pipe: Transaction, keys: PartitionKeys, place: LogPlace, said: "_Discarding", known: Discarded | None
    ) -> None:
        """Everything that a discard changes, in one transaction of the partition's slot."""
        await pipe.watch(keys.generation, keys.redrive, keys.discarded, keys.rebuild)
        live = keys.of_generation(int(await pipe.get(keys.generation) or 1))
        beside = await self._rebuilds.beside(keys.partition) - {live.generation}
        others = [keys.of_generation(one) for one in sorted(beside)]
        await pipe.watch(live.dead, *(one.checkpoint for one in others))
        requested = (await pipe.zmscore(keys.redrive, [place.position.sort_key]))[0]
        if requested is not None:
            raise CommandRejected(f"{place} is asked to be redriven; see what became of that first", "position")
        letter = known.letter if known else await dead_letter(self._redis, live, place.position)
        if letter is None:
            raise NotFound(f"there is no dead letter at {place}")
        if not known:
            await self._refuse_if_rebuilt(pipe, keys, others, place)
        entry = await entry_at(self._log, place.partition, place.position) if said.erase else None
        pipe.multi()
        queue_removal(pipe, live.dead, place.position)
        for one in others:
            queue_removal(pipe, one.dead, place.position)
        queue_discarded(pipe, keys, said.of(letter, known))
        if not known:
            queue_count(pipe, keys, "discarded")
        if entry is not None:
            _queue_erasure(pipe, keys, entry)

    async def _refuse_if_rebuilt(
        self, pipe: Transaction, keys: PartitionKeys, others: Sequence[GenerationKeys], place: LogPlace
    ) -> None:
        """Raise BeingRebuilt while a rebuild may apply the event, or where a generation beside has applied it."""
        if await pipe.get(keys.rebuild):
            raise BeingRebuilt(keys.partition)
        for one in others:
            stored = await pipe.get(one.checkpoint)
            reached = Position.parse(stored) if stored else START
            if reached >= place.position and await dead_letter(self._redis, one, place.position) is None:
                raise BeingRebuilt(keys.partition)


class _Discarding(Struct, frozen=True, kw_only=True):
    """Why, by whom and when something is discarded."""

    reason: str
    agent_id: str
    at: datetime
    erase: bool

    def of(self, letter: DeadLetter, known: Discarded | None) -> Discarded:
        """What is noted of a letter. Of one that is erased its error goes, too: it may say what the event said."""
        kept = replace(letter, message="") if self.erase else letter
        if known is not None:
            return replace(known, letter=kept, erased=True)
        return Discarded(
            letter=kept, reason=self.reason, agent_id=self.agent_id, discarded_at=self.at, erased=self.erase
        )


def _queue_erasure(pipe: Transaction, keys: PartitionKeys, entry: Stored) -> None:
    """Put a stub that says who, where and when in the place of an entry, and note that there is something to purge."""
    pipe.xdel(keys.log, str(entry.position))
    pipe.zadd(keys.erased, {stub_member(keys, Stored(entry.position, encode(_stub_of(entry)))): 0})
    pipe.sadd(keys.purge, b"")


def _stub_of(entry: Stored) -> Event:
    """The stub of an entry that may be no event at all: what can be read of its envelope stays."""
    told = as_json_object(entry.payload, entry.position)

    def text(name: str) -> str:
        value = told.get(name, "")
        return value if isinstance(value, str) else ""

    try:
        occurred_at = msgspec.convert(told.get("occurred_at"), datetime)
    except msgspec.ValidationError:
        occurred_at = entry.position.recorded_at
    envelope = Envelope(
        event_id=text("event_id") or f"erased:{entry.position}",
        type=EventErased.TYPE,
        version=EventErased.VERSION,
        tenant=text("tenant"),
        project=text("project"),
        agent_id=text("agent_id"),
        session_id=text("session_id"),
        occurred_at=occurred_at,
    )
    return Event(envelope, EventErased(was=text("type"), document=""))
