"""Dead letters as an operator sees and settles them: what this room hands to the API, the workers and forgetting.

`DeadLetters` lists them, asks for a retry (redrive; the partition's runner does it) and discards.
`PartitionDeadLetters` is what a runner parks and retries with. Without this room an event that cannot be applied
stops its partition.

A discard changes no document, so it is done here, in a transaction that fails and is repeated when the dead letter, a
request to redrive it, or a rebuild changes during it. What an event says is shown as `GET /v1/events` shows it: to
readers of its tenant (an unreadable event names no tenant and is shown to operators). What a private memory says, and
the error that it led to, are only for its readers.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import BeingRebuilt, CommandRejected, NotFound, Overloaded
from ingest.events.envelope import Envelope, Event, as_json_object, encode
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored, entry_at
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, Token, stored_position
from ingest.log.redis_log import stub_member
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client, Transaction
from ingest.platform.partial import leaving_out, readable
from ingest.secrets.clean import clean_agent
from ingest.secrets.scrub import scrub_text
from projections.nouns.access import Reader
from projections.queries.documents import DocumentReader
from projections.queries.log_events import EventFilter, EventView
from projections.queries.times import ANY_TIME, Times
from projections.rebuilding.rebuilds import Rebuilds
from projections.store.dead_letters import (
    LETTERS_PER_READ,
    OUTCOMES,
    Discarded,
    Noted,
    Outcome,
    State,
    dead_letter,
    letter_counts,
    live_keys,
    noted,
    noted_after,
    queue_count,
    queue_discarded,
    queue_removal,
)
from projections.store.dead_letters import PartitionDeadLetters as PartitionDeadLetters

MAX_SCANNED = 20_000
"""Dead letters that a filtered request may skip; it then answers what it has and a cursor."""
MAX_SELECTED = 1_000
"""Dead letters that one request redrives or discards; it then answers a cursor."""
TRIES = 50
"""Of a discard whose partition goes on parking; each try loses to one event that was parked at the same time."""


class LogLocation(NamedTuple):
    """Where an event is in the log: `<partition>:<ms>-<seq>`."""

    partition: int
    position: Position

    @classmethod
    def parse(cls, text: str, partitions: int, field: str = "position") -> "LogLocation":
        """Read one; raises CommandRejected that names the field."""
        number, _, position = text.partition(":")
        try:
            location = cls(int(number), Position.parse(position))
        except ValueError:
            raise CommandRejected(f"{text[:80]!r} is not a log position such as 3:1769860800000-0", field) from None
        if not 0 <= location.partition < partitions:
            raise CommandRejected(f"valid partitions are 0 to {partitions - 1}", field)
        return location

    def __str__(self) -> str:
        return f"{self.partition}:{self.position}"


class Letter(NamedTuple):
    """A dead letter or a discarded one, where it is, and its event (None when it is no longer in the log)."""

    location: LogLocation
    note: Noted
    event: EventView | None

    @property
    def is_erased(self) -> bool:
        """Whether it was discarded together with what its event said."""
        return self.note.discarded is not None and self.note.discarded.erased


class Selection(Struct, frozen=True, kw_only=True):
    """A filter of dead letters; an empty field does not restrict. `cursor`: only those after this location."""

    state: State = "parked"
    partition: int | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None
    times: Times = ANY_TIME


class LetterPage(Struct, frozen=True, kw_only=True):
    """A page in the order of partitions and positions, the next page's cursor, and how many letters there ever were.

    `counts` are of the whole server, and null for callers who do not operate it.
    """

    dead_letters: list[dict[str, Any]]
    next: str | None
    counts: dict[Outcome, int] | None


class Done(Struct, frozen=True, kw_only=True):
    """The locations that a request covered, and a cursor to continue from; None at the end."""

    positions: list[str]
    next: str | None = None


class Reason(Struct, frozen=True, kw_only=True):
    """Why and by whom dead letters are discarded; with `erase`, what their events say goes from the log, too."""

    reason: str
    agent_id: str
    erase: bool = False


@dataclass
class DeadLetters:
    """Lists, redrives and discards; asking twice does no more than asking once."""

    _redis: Client
    _log: EventLog
    _documents: DocumentReader
    _clock: Clock = system_clock

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._documents.partitions

    async def page(self, selection: Selection, reader: Reader, limit: int) -> LetterPage:
        """A page of the dead letters that a reader may see."""
        letters, cursor = await self._select(selection, reader, limit)
        counts: dict[Outcome, int] | None = None
        if not reader.key_scope.within_tenant:
            reads = {n: letter_counts(self._redis, PartitionKeys(n)) for n in range(self.partitions)}
            by_partition = (await readable(reads)).values()
            counts = {outcome: sum(some[outcome] for some in by_partition) for outcome in OUTCOMES}
        return LetterPage(dead_letters=await self._views(letters, reader), next=cursor, counts=counts)

    async def show(self, location: LogLocation, reader: Reader) -> dict[str, Any]:
        """One dead letter with its event; raises NotFound."""
        return (await self._views([await self._find(location, reader)], reader))[0]

    async def redrive(self, location: LogLocation, reader: Reader) -> Done:
        """Ask the runner to retry one; it is not discarded any more then.

        Raises NotFound; CommandRejected for one whose event was erased.
        """
        if (await self._find(location, reader)).is_erased:
            raise CommandRejected(f"the event at {location} was erased when it was discarded", "position")
        # the runner takes away a request whose letter is gone by then
        await self._redis.zadd(PartitionKeys(location.partition).redrive, {location.position.sort_key: 0})
        return Done(positions=[str(location)])

    async def redrive_all(self, selection: Selection, reader: Reader) -> Done:
        """Ask for all that are selected, MAX_SELECTED at a time, in log order."""
        letters, cursor = await self._select(replace(selection, state="parked"), reader, MAX_SELECTED)
        for partition, position in [letter.location for letter in letters]:
            await self._redis.zadd(PartitionKeys(partition).redrive, {position.sort_key: 0})
        return Done(positions=[str(letter.location) for letter in letters], next=cursor)

    async def discard(self, location: LogLocation, reader: Reader, why: Reason) -> Done:
        """Discard one; with `erase`, also what its event said, which can still be done to a discarded one.

        Raises NotFound; CommandRejected while a redrive of it is requested; BeingRebuilt.
        """
        letter = await self._find(location, reader)
        if letter.note.discarded is None or (why.erase and not letter.is_erased):
            await self._discard(location, why, letter.note.discarded)
        return Done(positions=[str(location)])

    async def discard_all(self, selection: Selection, reader: Reader, why: Reason) -> Done:
        """Discard all that are selected, MAX_SELECTED at a time."""
        letters, cursor = await self._select(replace(selection, state="parked"), reader, MAX_SELECTED)
        for letter in letters:
            await self._discard(letter.location, why, None)
        return Done(positions=[str(letter.location) for letter in letters], next=cursor)

    async def erase_all(
        self, is_subject: Callable[[Mapping[str, Any]], bool], until: Token, tenant: str, *, reason: str, agent_id: str
    ) -> int:
        """Discard and erase every one up to `until` whose event is of a subject; returns how many were erased."""
        reader, erased, why = Reader(tenant, operator=True), 0, Reason(reason=reason, agent_id=agent_id, erase=True)
        for state in get_args(State):
            selection: Selection | None = Selection(state=state)
            while selection is not None:
                letters, cursor = await self._select(selection, reader, MAX_SELECTED)
                for letter in letters:
                    is_late = letter.location.position > until.get(letter.location.partition, START)
                    if letter.event is None or letter.is_erased or is_late or not is_subject(letter.event.event):
                        continue
                    await self.discard(letter.location, reader, why)
                    erased += 1
                selection = None if cursor is None else Selection(state=state, cursor=cursor)
        return erased

    # reading

    async def _find(self, location: LogLocation, reader: Reader) -> Letter:
        note = await noted(self._redis, PartitionKeys(location.partition), location.position)
        letter = None if note is None else await self._with_event(location, note)
        if letter is None or not _may_see(letter, reader):
            raise NotFound(f"there is no dead letter at {location}")
        return letter

    async def _select(self, selection: Selection, reader: Reader, limit: int) -> tuple[list[Letter], str | None]:
        """The next ones that a reader may see, at most `limit`, of the MAX_SCANNED next ones; and a cursor."""
        letters: list[Letter] = []
        scanned, last = 0, None
        async for location, note in self._notes(selection):
            if len(letters) >= limit or scanned >= MAX_SCANNED:
                return letters, str(last)
            scanned, last = scanned + 1, location
            if selection.code in ("", note.letter.code) and selection.type in ("", note.letter.type):
                letter = await self._with_event(location, note)
                if _may_see(letter, reader, selection.times):
                    letters.append(letter)
        return letters, None

    async def _notes(self, selection: Selection) -> AsyncIterator[tuple[LogLocation, Noted]]:
        """What is noted in a state after a cursor, partition after partition, read some at a time."""
        start = LogLocation(selection.partition or 0, START)
        if selection.cursor is not None:
            start = LogLocation.parse(selection.cursor, self.partitions, "cursor")
        last = self.partitions - 1 if selection.partition is None else selection.partition
        if last >= self.partitions:
            raise CommandRejected(f"valid partitions are 0 to {self.partitions - 1}", "partition")
        for partition in range(start.partition, last + 1):
            keys, after = PartitionKeys(partition), selection.times.recorded.start
            if partition == start.partition:
                after = max(after, start.position)
            page: Sequence[Noted] = ()
            while True:
                with leaving_out(partition, range(start.partition, last + 1)):
                    page = await noted_after(self._redis, keys, selection.state, after, LETTERS_PER_READ)
                if not page:
                    break
                for note in page:
                    after = Position.parse(note.letter.position)
                    yield LogLocation(partition, after), note
                page = ()

    async def _with_event(self, location: LogLocation, note: Noted) -> Letter:
        entry = await entry_at(self._log, *location)
        return Letter(location, note, None if entry is None else EventView.of(location.partition, entry))

    async def _views(self, letters: Sequence[Letter], reader: Reader) -> list[dict[str, Any]]:
        names = {name for letter in letters if letter.event is not None for name in letter.event.about()}
        located = [location.document for location in await self._documents.find_all(sorted(names))]
        documents = {DocumentId(document.id): document for document in located}
        return [
            _view(letter, None if letter.event is None else letter.event.shown(reader, documents)) for letter in letters
        ]

    # changing

    async def _discard(self, location: LogLocation, why: Reason, existing: Discarded | None) -> None:
        for _ in range(TRIES):
            async with self._redis.pipeline(transaction=True) as pipe:
                await self._queue_discard(pipe, location, why, existing)
                try:
                    await pipe.execute()
                    return
                except WatchError:
                    continue
        raise Overloaded(f"partition {location.partition} changes too quickly to discard {location}; try again")

    async def _queue_discard(
        self, pipe: Transaction, location: LogLocation, why: Reason, existing: Discarded | None
    ) -> None:
        """Everything that a discard changes, in one transaction of the partition's slot."""
        keys, position = PartitionKeys(location.partition), location.position
        # watched first, read after: the transaction fails if any of it changes before it is carried out
        await pipe.watch(keys.generation, keys.redrive, keys.discarded, keys.rebuild)
        live = await live_keys(pipe, keys)
        beside = await Rebuilds(self._redis, self._clock).beside(keys.partition) - {live.generation}
        others = [keys.of_generation(generation) for generation in sorted(beside)]
        await pipe.watch(live.dead, *(other.checkpoint for other in others))
        if (await pipe.zmscore(keys.redrive, [position.sort_key]))[0] is not None:
            raise CommandRejected(f"a retry of {location} is pending; wait for its result first", "position")
        letter = existing.letter if existing else await dead_letter(self._redis, live, position)
        if letter is None:
            raise NotFound(f"there is no dead letter at {location}")
        if not existing:
            # refused while a rebuild may apply the event, or where another generation has applied it
            if await pipe.get(keys.rebuild):
                raise BeingRebuilt(keys.partition)
            for other in others:
                checkpoint = stored_position(await pipe.get(other.checkpoint))
                if checkpoint >= position and await dead_letter(self._redis, other, position) is None:
                    raise BeingRebuilt(keys.partition)
        entry = await entry_at(self._log, *location) if why.erase else None
        pipe.multi()
        for generation in (live, *others):
            queue_removal(pipe, generation.dead, position)
        letter = replace(letter, message="" if why.erase else letter.message)  # the error may quote the event
        if existing:
            queue_discarded(pipe, keys, replace(existing, letter=letter, erased=True))
        else:
            agent_id = clean_agent(why.agent_id, "replace")
            discarded = Discarded(
                letter=letter, reason=scrub_text(why.reason), agent_id=agent_id, discarded_at=self._clock(),
                erased=why.erase,
            )  # fmt: skip
            queue_discarded(pipe, keys, discarded)
            queue_count(pipe, keys, "discarded")
        if entry is not None:  # a stub takes its place, and the purge has something to do
            pipe.xdel(keys.log, str(entry.position))
            pipe.zadd(keys.erased, {stub_member(keys, Stored(entry.position, encode(_stub_of(entry)))): 0})
            pipe.sadd(keys.purge, b"")


def _may_see(letter: Letter, reader: Reader, times: Times = ANY_TIME) -> bool:
    """An event that names no tenant, or is gone, may be anyone's, and is shown to operators; so is its stub."""
    event = {} if letter.event is None else letter.event.event
    return EventFilter(reader, times=times).matches(
        {**event, "tenant": event.get("tenant") or None}, letter.location.position
    )


def _view(letter: Letter, event: dict[str, Any] | None) -> dict[str, Any]:
    record, discarded, requested = letter.note
    data = (event or {}).get("data")
    withheld = isinstance(data, dict) and "withheld" in data
    view = {
        "position": str(letter.location),
        "state": "parked" if discarded is None else "discarded",
        "code": record.code,
        "message": "" if withheld else record.message,
        **{name: getattr(record, name) for name in ("type", "attempts", "parked_at", "tried_at", "release")},
        "redrive_requested": requested,
        "discarded": None,
        "event": event,
    }
    if discarded is not None:
        view["discarded"] = {
            "reason": discarded.reason,
            "agent_id": discarded.agent_id,
            "at": discarded.discarded_at,
            "erased": discarded.erased,
        }
    return view


def _stub_of(entry: Stored) -> Event:
    """The stub of an entry that may not be an event at all: the readable part of its envelope stays."""
    fields = as_json_object(entry.payload, entry.position)

    def text(name: str) -> str:
        value = fields.get(name, "")
        return value if isinstance(value, str) else ""

    try:
        occurred_at = msgspec.convert(fields.get("occurred_at"), datetime)
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
