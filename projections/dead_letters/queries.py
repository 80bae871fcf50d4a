"""Dead letters as an operator reads them: a page of them, one of them, how many there ever were.

What an event says is shown as `GET /v1/events` shows it: to readers of its tenant (an unreadable one belongs to none
and is shown to operators), and what a private memory says to its readers alone; the error that it led to goes the same
way.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ingest.errors import CommandRejected, NotFound
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, entry_at
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from ingest.platform.partial import leaving_out, readable
from projections.dead_letters.records import (
    LETTERS_PER_READ,
    OUTCOMES,
    DeadLetter,
    Discarded,
    Noted,
    Outcome,
    dead_after,
    letter_counts,
    noted,
    notes_after,
)
from projections.documents.access import Reader
from projections.queries.documents import DocumentReader
from projections.queries.log_events import EventFilter, EventView
from projections.queries.times import ANY_TIME, Times

MAX_SCANNED = 20_000
"""Letters one filtered request may pass over; it then answers what it has and where to go on."""

State = Literal["parked", "discarded"]


class LogPlace(NamedTuple):
    """A place in the log: `<partition>:<ms>-<seq>`."""

    partition: int
    position: Position

    @classmethod
    def parse(cls, text: str, partitions: int, field: str = "position") -> "LogPlace":
        """Read one; raises CommandRejected that names the field."""
        number, _, position = text.partition(":")
        try:
            found = cls(int(number), Position.parse(position))
        except ValueError:
            raise CommandRejected(
                f"{text[:80]!r} is no place in the log; they look like 3:1769860800000-0", field
            ) from None
        if not 0 <= found.partition < partitions:
            raise CommandRejected(f"there are partitions 0 to {partitions - 1}", field)
        return found

    def __str__(self) -> str:
        return f"{self.partition}:{self.position}"


class Letter(NamedTuple):
    """A dead letter or a discarded one, where it is, and its event (None when the log has it no more)."""

    place: LogPlace
    letter: DeadLetter
    discarded: Discarded | None
    requested: bool
    """Whether a worker is asked to try it, and has not yet."""
    event: EventView | None


class Selection(Struct, frozen=True, kw_only=True):
    """Which letters; what is empty does not restrict. `cursor`: only those behind this place."""

    state: State = "parked"
    partition: int | None = None
    code: str = ""
    type: str = ""
    cursor: str | None = None
    times: Times = ANY_TIME

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a letter is one of those."""
        return self.code in ("", letter.code) and self.type in ("", letter.type)


class LetterPage(Struct, frozen=True, kw_only=True):
    """A page of letters in the order of partitions and positions, where to go on, and what became of letters ever.

    `counts` are of the whole server, and null for who is not its operator.
    """

    dead_letters: list[dict[str, Any]]
    next: str | None
    counts: dict[Outcome, int] | None


class SelectedLetters(NamedTuple):
    """Selected letters; `next` is the cursor of the others, None at the end."""

    letters: list[Letter]
    next: str | None


class DeadLetters:
    """Answers what could not be applied."""

    def __init__(self, redis: Client, log: EventLog, documents: DocumentReader) -> None:
        self._redis, self._log, self._documents = redis, log, documents

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._documents.partitions

    async def page(self, wanted: Selection, reader: Reader, limit: int) -> LetterPage:
        """A page of letters that a reader may see."""
        found = await self.select(wanted, reader, limit)
        return LetterPage(
            dead_letters=await self._shown(found.letters, reader),
            next=found.next,
            counts=None if reader.key_scope.within_tenant else await self.counts(),
        )

    async def show(self, place: LogPlace, reader: Reader) -> dict[str, Any]:
        """One letter with its event; raises NotFound."""
        return (await self._shown([await self.find(place, reader)], reader))[0]

    async def find(self, place: LogPlace, reader: Reader) -> Letter:
        """The letter of a place, dead or discarded; raises NotFound, also for what is not the reader's."""
        about = await noted(self._redis, PartitionKeys(place.partition), place.position)
        found = None if about is None else await self._with_event(place.partition, about)
        if found is None or not _may_see(found, reader):
            raise NotFound(f"there is no dead letter at {place}")
        return found

    async def select(self, wanted: Selection, reader: Reader, limit: int) -> SelectedLetters:
        """The next letters that a reader may see, at most `limit`, of the MAX_SCANNED next ones."""
        found: list[Letter] = []
        scanned, last = 0, None
        async for place, about in self._letters(wanted):
            if len(found) >= limit or scanned >= MAX_SCANNED:
                return SelectedLetters(found, str(last))
            scanned, last = scanned + 1, place
            if wanted.takes(about.letter):
                one = await self._with_event(place.partition, about)
                if _may_see(one, reader, wanted.times):
                    found.append(one)
        return SelectedLetters(found, None)

    async def counts(self) -> dict[Outcome, int]:
        """How many letters were ever parked, and what became of them, in all partitions."""
        everywhere = await readable(
            {one: letter_counts(self._redis, PartitionKeys(one)) for one in range(self.partitions)}
        )
        return {outcome: sum(counts[outcome] for counts in everywhere.values()) for outcome in OUTCOMES}

    async def _letters(self, wanted: Selection) -> AsyncIterator[tuple[LogPlace, Noted]]:
        """The letters of a state behind a cursor, partition after partition, read some at a time."""
        following = notes_after if wanted.state == "discarded" else dead_after
        start = LogPlace(wanted.partition or 0, START)
        if wanted.cursor is not None:
            start = LogPlace.parse(wanted.cursor, self.partitions, "cursor")
        last = self.partitions - 1 if wanted.partition is None else wanted.partition
        if last >= self.partitions:
            raise CommandRejected(f"there are partitions 0 to {self.partitions - 1}", "partition")
        wanted_partitions = range(start.partition, last + 1)
        for partition in wanted_partitions:
            keys, after = PartitionKeys(partition), wanted.times.recorded.start
            if partition == start.partition:
                after = max(after, start.position)
            page: Sequence[Noted] = ()
            while True:
                with leaving_out(partition, wanted_partitions):
                    page = await following(self._redis, keys, after, LETTERS_PER_READ)
                if not page:
                    break
                for about in page:
                    after = Position.parse(about.letter.position)
                    yield LogPlace(partition, after), about
                page = ()

    async def _with_event(self, partition: int, about: Noted) -> Letter:
        position = Position.parse(about.letter.position)
        entry = await entry_at(self._log, partition, position)
        return Letter(LogPlace(partition, position), *about, None if entry is None else EventView.of(partition, entry))

    async def _shown(self, letters: Sequence[Letter], reader: Reader) -> list[dict[str, Any]]:
        about = {name for one in letters if one.event is not None for name in one.event.about()}
        known = {DocumentId(one.document.id): one.document for one in await self._documents.find_all(sorted(about))}
        return [_view(one, None if one.event is None else one.event.shown(reader, known)) for one in letters]


def _may_see(one: Letter, reader: Reader, times: Times = ANY_TIME) -> bool:
    """An event that names no tenant, or is gone, may be anybody's, and is shown to operators; the stub of one, too."""
    event = {} if one.event is None else one.event.event
    wanted = EventFilter(reader, times=times)
    return wanted.matches({**event, "tenant": event.get("tenant") or None}, one.place.position)


def _view(one: Letter, event: dict[str, Any] | None) -> dict[str, Any]:
    letter, discarded = one.letter, one.discarded
    data = (event or {}).get("data")
    withheld = isinstance(data, dict) and "withheld" in data
    return {
        "position": str(one.place),
        "state": "parked" if discarded is None else "discarded",
        "code": letter.code,
        "message": "" if withheld else letter.message,
        "type": letter.type,
        "attempts": letter.attempts,
        "parked_at": letter.parked_at,
        "tried_at": letter.tried_at,
        "release": letter.release,
        "redrive_requested": one.requested,
        "discarded": None
        if discarded is None
        else {
            "reason": discarded.reason,
            "agent_id": discarded.agent_id,
            "at": discarded.discarded_at,
            "erased": discarded.erased,
        },
        "event": event,
    }
