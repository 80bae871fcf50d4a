"""The questions of an index, whichever holds the documents. Every index answers alike (tests/conformance/index).

An answer is as of the index's current state; nothing waits except for the index itself. Times are ms since the epoch;
`now_ms` is the time as of which what ages is weighed. In every list, documents of equal time may come in any order
unless an order is named.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from redis.exceptions import RedisError

from ingest.errors import ProjectionBehind
from ingest.ids import DocumentId
from ingest.log.event_log import LogHistory
from ingest.log.lag import entries_behind
from ingest.log.position import START, Position, Token
from ingest.platform.connections import Client
from ingest.platform.partial import partial_reads
from ingest.platform.tasks import nothing
from projections.index.replica import FeedPosition
from projections.index.waiting import sign_off
from projections.search.question import Filter, Hit, Question
from projections.vectors.embedder import Embedder, Embedders

logger = logging.getLogger(__name__)

DocumentLocation: TypeAlias = tuple[int, DocumentId]
"""Where a document is: its partition and its id."""
Listed = Literal["project", "agent", "type"]
"""The facets whose values can be asked for."""
Linked = Literal["project", "session", "file", "concept"]
"""The facets that are nodes of the graph."""
Result = TypeVar("Result")

SIGN_OFF_S = 1.0
MAX_OF_ONE_MOMENT = 1_000
"""Documents of one millisecond up to which a page is given all of them, so that the asker may order them."""


def time_and_id(located: tuple[int, DocumentLocation]) -> tuple[int, str]:
    """What documents are sorted by where those of one moment have an order: the time in ms, then the id."""
    return located[0], located[1][1]


class Window(NamedTuple):
    """The documents of a page, each as its time in ms and its place; newest first, of one moment the greatest id.

    Before and behind the page itself are the others of the same moments as its ends, `skipped` of them before it. A
    moment of too many is in `crowded`, and not completed. `total` counts what matches.
    """

    located: list[tuple[int, DocumentLocation]]
    skipped: int
    crowded: frozenset[int]
    total: int


class Links(NamedTuple):
    """How many memories have a facet value, and in how many episodes observations do; all outside any are one more."""

    memories: int
    episodes: int


class RankedLesson(NamedTuple):
    """A lesson by how sure it is: `weight` is its confidence now, times `SAME_PROJECT` in the asked project."""

    id: str
    partition: int
    weight: float


class Index(Protocol):
    """The questions. They may take a while, so they are asked by `IndexService.ask`."""

    def __len__(self) -> int:
        """How many documents there are."""
        ...

    def search(self, question: Question, allowed: Filter) -> list[Hit]:
        """The best documents for a question, best first, at most `limit`; of equal scores the smallest id first."""
        ...

    def count(self, allowed: Filter) -> int:
        """How many documents a filter allows."""
        ...

    def counts(self, allowed: Filter, name: Listed) -> dict[str, int]:
        """How many of them have each value of a facet; values that none has are left out."""
        ...

    def recorded_last(self, allowed: Filter, count: int) -> list[DocumentLocation]:
        """Those recorded last, newest first; of equals the smallest id."""
        ...

    def most_recent(self, allowed: Filter, count: int, offset: int = 0) -> list[DocumentLocation]:
        """Those that happened last, newest first, from `offset` on."""
        ...

    def window(self, allowed: Filter, offset: int, limit: int) -> Window:
        """The page of `limit` documents from `offset` on; empty behind the end."""
        ...

    def nearest(self, allowed: Filter, when_ms: int) -> list[DocumentLocation]:
        """The document that happened nearest to a moment, of equals the smallest id; empty without documents."""
        ...

    def around(
        self, allowed: Filter, anchor: str, when_ms: int, before: int, after: int
    ) -> tuple[list[DocumentLocation], list[DocumentLocation]]:
        """Those that happened next before and next after an anchor (its id, its time), in the order of time.

        What happened in the same millisecond is ordered by id.
        """
        ...

    def saying(self, allowed: Filter, words: str, *, everywhere: bool) -> list[DocumentLocation]:
        """Those that say all of these words or are about that concept, newest first; bounded.

        Among the newest, at least LOOKED_AT; `everywhere` among all.
        """
        ...

    def every(self, allowed: Filter, most: int | None = None) -> list[DocumentLocation]:
        """All of them, or `most`, in no order."""
        ...

    def beginning(self, allowed: Filter, begins: str) -> list[DocumentLocation]:
        """Those whose id begins with these eight characters or more, in no order."""
        ...

    def facets(self, places: Sequence[DocumentLocation]) -> list[Sequence[str]]:
        """The facet values (`facet`) of each document; none for one that is not there."""
        ...

    def with_vectors(self, names: Iterable[str]) -> set[str]:
        """Those of these ids that the index has vectors of the model for."""
        ...

    def linked_values(self, allowed: Filter, name: Linked, most: int) -> list[str]:
        """Up to `most` of the values of a facet that they have, in an order that holds."""
        ...

    def links(self, allowed: Filter, name: Linked, values: Sequence[str]) -> dict[str, Links]:
        """What of them has each of these values of a facet; values that none has are left out."""
        ...

    def lessons_by_confidence(self, allowed: Filter, project: str, now_ms: int, count: int) -> list[RankedLesson]:
        """The surest lessons, those of `project` weighing more; equals by id. Lessons, whatever the filter's kinds."""
        ...

    def notable_memories(self, allowed: Filter, project: str, now_ms: int, count: int) -> list[DocumentLocation]:
        """The memories that weigh most by importance and newness; equals by id. Memories, whatever the filter's kinds.

        Those of `project`, and what the reader wrote, weigh more than others.
        """
        ...


READ_WAIT_S = 1.0
"""How long a read waits for what it names, unless an index is configured otherwise."""


class IndexService(ABC):
    """An index that follows the log while it answers. A subclass calls `_notify` after `applied` or `ready` changed."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        embedders: Embedders,
        name: str,
        read_wait_s: float = READ_WAIT_S,
        history: LogHistory | None = None,
        look_at_log: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        """`redis` is the log's server; `embedders` are the configured ones, and the live one; `name` identifies this
        process; `history` is the log's; `look_at_log` is awaited after each heartbeat."""
        self._redis, self._partitions, self._read_wait_s = redis, partitions, read_wait_s
        self._history = history or LogHistory(partitions)
        self._look_at_log = look_at_log
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self.embedders, self.name = embedders, name
        self.waiting = 0
        """Reads that wait now."""
        self.lag: Mapping[int, int] = {}
        """Log entries not projected yet, by partition that has any, as of less than a second ago."""

    @property
    def version(self) -> int | None:
        """A number that changes whenever the index does; None if that is unknown."""
        return None

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether every partition is complete, and has been applied up to where its feed stood at the start."""

    @property
    @abstractmethod
    def partly(self) -> bool:
        """Whether some partitions are not ready, while the others are served: after the index has been ready, or while
        it answers from a snapshot."""

    @property
    @abstractmethod
    def trouble(self) -> str | None:
        """What keeps the index from being ready, besides its start."""

    @property
    @abstractmethod
    def embedder(self) -> Embedder:
        """What made the vectors of the index."""

    @property
    @abstractmethod
    def documents(self) -> int:
        """How many documents are indexed, as of a moment ago."""

    @property
    @abstractmethod
    def made_of(self) -> tuple[str, int]:
        """Changes when anything was removed from the index: what was derived from it before may contain deleted
        documents."""

    @property
    @abstractmethod
    def applied(self) -> dict[int, Position]:
        """The log position covered, by partition; the beginning for one that may lack what it covers."""

    @property
    @abstractmethod
    def at(self) -> dict[int, FeedPosition]:
        """Where the index stands in every feed; at the beginning while that is unknown."""

    @property
    @abstractmethod
    def comparing(self) -> list[int]:
        """The partitions that are, or wait to be, compared with their documents."""

    @abstractmethod
    def generation_of(self, partition: int) -> int:
        """The generation whose feed is followed."""

    @abstractmethod
    def partition_of(self, name: str) -> int | None:
        """The partition of a document, if it is known here; a hint, since it may change at any time."""

    @abstractmethod
    def start(self) -> None:
        """Begin to follow."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop following."""

    @abstractmethod
    async def beat(self) -> None:
        """Announce that this process is up."""

    @abstractmethod
    async def ask(self, question: Callable[[Index], Result]) -> Result:
        """The answer of the index as it stands. Raises ProjectionBehind before it can answer."""

    @abstractmethod
    async def ask_current(self, question: Callable[[Index], Result]) -> Result:
        """The same, of an index that contains no deleted document: for answers that no document is read for.

        Waits for that as reads do, and raises ProjectionBehind then.
        """

    @abstractmethod
    async def search(self, question: Question, allowed: Filter) -> list[Hit]:
        """Search the index as it stands.

        Raises ProjectionBehind before it can answer; EmbedderMismatch when its vectors are not of `question.model`.
        """

    async def wait_for(self, token: Token, timeout_s: float | None = None) -> None:
        """Return once everything the token covers is searchable.

        Raises ProjectionBehind after `timeout_s` (None: as long as reads wait here), and CommandRejected for a token of
        another log.
        """
        token = self._history.check(token)
        if token.covered_by(self.applied):
            return
        started = time.monotonic()
        self.waiting += 1
        try:
            # the condition is checked under its lock, so an index that catches up now cannot be missed
            async with asyncio.timeout(self._read_wait_s if timeout_s is None else timeout_s), self._changed:
                await self._changed.wait_for(lambda: token.covered_by(self.applied))
        except TimeoutError:
            raise ProjectionBehind(time.monotonic() - started, await self.measure_lag()) from None
        finally:
            self.waiting -= 1

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once `ready`; raises ProjectionBehind after `timeout_s`."""
        await self._wait_until(lambda: self.ready, timeout_s)

    async def changed(self, at: Token) -> None:
        """Return once something after `at` is covered, in any partition."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: any(position > at.get(partition, START) for partition, position in self.applied.items())
            )

    async def measure_lag(self) -> dict[int, int]:
        """Log entries that are not projected yet, by partition that has any; also refreshes `lag`.

        Of a cluster, as far as its nodes answer.
        """
        with partial_reads():
            behind = await entries_behind(self._redis, self._partitions)
        self.lag = behind
        return behind

    async def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise ProjectionBehind(timeout_s, await self.measure_lag()) from None

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _measure(self) -> None:
        await self.measure_lag()

    async def _keep_measuring(self, every_s: float) -> None:
        while True:
            try:
                await self._measure()
                await self.beat()
                await self._look_at_log()
            except (RedisError, OSError) as error:
                logger.debug("the lag could not be read: %s", error)
            await asyncio.sleep(every_s)

    async def _sign_off(self) -> None:
        try:
            # a server that does not answer must not hold up the end of this process
            async with asyncio.timeout(SIGN_OFF_S):
                await sign_off(self._redis, self.name)
        except (RedisError, OSError) as error:
            logger.debug("could not deregister: %s", error)


class EmbedderMismatch(Exception):
    """A question's vector was made by another model than the index's vectors: make it again."""
