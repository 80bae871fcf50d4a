"""The live embedder: one record in the log, so that all processes search with the same model.

The setting applies only to a new log; later, a rebuild changes the embedder after it has made all vectors with another
model. Each process builds it from that record, and again when the record changes. It builds only what its settings
name: a record, or a request, cannot make a process send texts and the key elsewhere.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct, json
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import LeaseLost, WrongRebuildState, reason_of
from ingest.log.keys import EMBEDDER, SNAPSHOT_LEASE
from ingest.platform.connections import Client
from projections.vectors.embedder import Embedder, EmbedderNotNamed, Unavailable

MODELS = 16
"""Models in the record: forgetting deletes the vectors of each from the cache."""


class Choice(Struct, frozen=True, kw_only=True):
    """An embedder: how it is configured, the identity of its vectors, and their length."""

    spec: str
    model: str
    dimensions: int


class EmbedderRecord(Struct, frozen=True, kw_only=True):
    """The live embedder, and every model that may have left vectors in the cache, newest first."""

    live: Choice
    models: list[str]


def choice_of(spec: str, embedder: Embedder) -> Choice:
    """The choice of a spec, with its embedder on this machine."""
    return Choice(spec=spec, model=embedder.model, dimensions=embedder.dimensions)


async def chosen(redis: Client) -> EmbedderRecord | None:
    """The record; None in a log that was never opened."""
    raw = await redis.get(EMBEDDER)
    return json.decode(raw, type=EmbedderRecord) if raw else None


async def models_of(redis: Client, embedder: Embedder) -> list[str]:
    """Every model that may have left vectors in the cache, including that of `embedder`."""
    record = await chosen(redis)
    return list(dict.fromkeys([embedder.model, *(record.models if record else ())]))


async def declare(redis: Client, choice: Choice) -> EmbedderRecord:
    """Make a choice live if no choice is; returns the live choice."""
    await redis.set(EMBEDDER, json.encode(EmbedderRecord(live=choice, models=[choice.model])), nx=True)
    record = await chosen(redis)
    assert record is not None, "it is never deleted"
    return record


async def announce(redis: Client, choice: Choice) -> None:
    """A model is about to leave vectors in the cache."""
    await _change(redis, lambda record: _with_model(record, choice.model))


async def make_live(redis: Client, before: Choice, after: Choice, who: str) -> None:
    """Switch from one to another, in one transaction; does nothing when `after` is live.

    Raises LeaseLost when `who` no longer has the lease on snapshots: another process may have trimmed the feeds before
    what was written under it. Raises WrongRebuildState when neither is live.
    """

    def switch(record: EmbedderRecord) -> EmbedderRecord:
        live = record.live
        if live not in (before, after):
            raise WrongRebuildState(
                f"the live embedding model is {live.model}, neither {before.model} nor {after.model}"
            )
        return replace(_with_model(record, after.model), live=after)

    await _change(redis, switch, who)


def _with_model(record: EmbedderRecord, model: str) -> EmbedderRecord:
    return replace(record, models=list(dict.fromkeys([model, record.live.model, *record.models]))[:MODELS])


async def _change(redis: Client, step: Callable[[EmbedderRecord], EmbedderRecord], who: str | None = None) -> None:
    while True:
        async with redis.pipeline(transaction=True) as pipe:
            # watched, so that a choice made by another process, or a lease lost, between read and write fails the write
            await pipe.watch(EMBEDDER, SNAPSHOT_LEASE)
            raw, holder = await pipe.mget(EMBEDDER, SNAPSHOT_LEASE)
            if who is not None and holder != who.encode():
                raise LeaseLost("the snapshot lease expired before the other embedder was live")
            if raw is None:
                raise WrongRebuildState("no process has recorded the live embedder yet: start a worker first")
            before = json.decode(raw, type=EmbedderRecord)
            after = step(before)
            if after == before:
                return
            pipe.multi()
            pipe.set(EMBEDDER, json.encode(after))
            try:
                await pipe.execute()
            except WatchError:
                continue
            return


logger = logging.getLogger(__name__)

AGAIN_AFTER_S = 30.0
"""A live embedder that was unavailable is tried again."""
BUILT_IN = frozenset({"default", "default:late", "multilingual", "none"})
"""Embedders that need no setting to remain live: they use no host, and no folder except the model's own."""
BUILT = 2
"""Embedders in memory: the live one, and that of a rebuild."""


@dataclass
class LiveEmbedder:
    """Follows the log's record. Vectors of two models never meet: those of any other model are not made.

    `build` makes an embedder of a spec; it is called in a thread, for one spec at a time. `named` are the specs
    in the settings.
    """

    _redis: Client
    _build: Callable[[str], Embedder]
    named: frozenset[str]

    def __post_init__(self) -> None:
        self._embedders: OrderedDict[str, Embedder] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()
        self._live: tuple[Choice, Embedder] | None = None
        self._tried_at = 0.0
        self.configured = "default"
        """The spec that it was started with."""

    async def start(self, configured: str) -> Embedder:
        """The live embedder; in a new log that is the configured one. Logs a warning if they differ.

        Raises EmbeddingError when the configured one of a new log cannot be built.
        """
        self.configured = configured = configured or "default"
        if await chosen(self._redis) is None:
            await declare(self._redis, choice_of(configured, await self.built(configured)))
        live = await self.refresh()
        assert self._live is not None
        if (spec := self._live[0].spec) != configured:
            logger.warning(
                "the embedder is %s, which made the live vectors, not %s: "
                "`mnemolog admin rebuild --embedder '%s'` makes new vectors and switches to them",
                spec, configured, configured,
            )  # fmt: skip
        return live

    @property
    def current(self) -> Embedder:
        """The one that was live at the last refresh."""
        assert self._live is not None, "it was not started"
        return self._live[1]

    @property
    def spec(self) -> str:
        """How the live one is configured."""
        return self._live[0].spec if self._live is not None else self.configured

    async def refresh(self) -> Embedder:
        """Read the record again: one round trip, and some seconds if the embedder has changed."""
        record = await chosen(self._redis)
        choice = record.live if record is not None else self._live[0] if self._live is not None else None
        assert choice is not None, "it was declared when this was started"
        is_retry_due = time.monotonic() - self._tried_at > AGAIN_AFTER_S
        live = self._live
        if live is None or live[0] != choice or (is_retry_due and isinstance(live[1], Unavailable)):
            live = self._live = choice, await self._embedder_of(choice)
            self._tried_at = time.monotonic()
        return live[1]

    async def built(self, spec: str) -> Embedder:
        """The embedder of a spec; raises EmbedderNotNamed, and EmbeddingError when it cannot be built."""
        if spec not in self.named and spec not in BUILT_IN:
            raise EmbedderNotNamed
        async with self._one_at_a_time:
            if spec not in self._embedders:
                self._embedders[spec] = await asyncio.to_thread(self._build, spec)
            self._embedders.move_to_end(spec)
            while len(self._embedders) > BUILT:
                self._embedders.popitem(last=False)
            return self._embedders[spec]

    async def _embedder_of(self, choice: Choice) -> Embedder:
        try:
            embedder = await self.built(choice.spec)
        except Exception as error:  # of any library: search by words still works
            logger.error("the live embedder %s is not available: %s", choice.spec, error)
            return Unavailable(choice.model, choice.dimensions, reason_of(error))
        if (embedder.model, embedder.dimensions) == (choice.model, choice.dimensions):
            return embedder
        reason = (
            f"{choice.spec} makes vectors of {embedder.model} with {embedder.dimensions} dimensions here, "
            f"but those of {choice.model} with {choice.dimensions} are live; `mnemolog admin rebuild --embedder "
            f"'{choice.spec}'` makes new vectors"
        )
        logger.error("%s", reason)
        return Unavailable(choice.model, choice.dimensions, reason)
