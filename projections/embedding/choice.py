"""Which embedder's vectors are live: one record of the log, so that all its processes search with the same model.

What the configuration names counts for a new log only; later it changes by a rebuild, which makes vectors of everything
under another model first.
"""

from collections.abc import Callable

from msgspec import Struct, json
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import LeaseLost, WrongRebuildState
from ingest.log.keys import EMBEDDER, SNAPSHOT_LEASE
from ingest.platform.connections import Client
from projections.embedding.embedder import Embedder

MODELS = 16
"""Models that are remembered: what is forgotten leaves the cache under each of them."""


class Choice(Struct, frozen=True, kw_only=True):
    """An embedder: how it is configured, the identity of its vectors, and their length."""

    spec: str
    model: str
    dimensions: int


class Chosen(Struct, frozen=True, kw_only=True):
    """The live embedder, and every model that may have left vectors in the cache, newest first."""

    live: Choice
    models: list[str]


def choice_of(spec: str, embedder: Embedder) -> Choice:
    """What a spec has become on this machine."""
    return Choice(spec=spec, model=embedder.model, dimensions=embedder.dimensions)


async def chosen(redis: Client) -> Chosen | None:
    """The record; None in a log that no process has opened yet."""
    raw = await redis.get(EMBEDDER)
    return json.decode(raw, type=Chosen) if raw else None


async def models_of(redis: Client, embedder: Embedder) -> list[str]:
    """Every model that may have left vectors in the cache, that of `embedder` among them."""
    known = await chosen(redis)
    return list(dict.fromkeys([embedder.model, *(known.models if known else ())]))


async def declare(redis: Client, choice: Choice) -> Chosen:
    """Make a choice the live one where there is none yet; returns what is live."""
    await redis.set(EMBEDDER, json.encode(Chosen(live=choice, models=[choice.model])), nx=True)
    known = await chosen(redis)
    assert known is not None, "it is never deleted"
    return known


async def announce(redis: Client, choice: Choice) -> None:
    """A model is about to leave vectors in the cache."""
    await _change(redis, lambda known: _knowing(known, choice.model))


async def make_live(redis: Client, before: Choice, after: Choice, who: str) -> None:
    """Switch from one to another, in one transaction; does nothing when `after` is live.

    Raises LeaseLost when `who` has no longer the lease on snapshots: another may have trimmed the feeds before what
    was written under it. Raises WrongRebuildState when neither is live.
    """

    def switched(known: Chosen) -> Chosen:
        if known.live not in (before, after):
            raise WrongRebuildState(f"vectors of {known.live.model} are live, neither {before.model} nor {after.model}")
        return replace(_knowing(known, after.model), live=after)

    await _change(redis, switched, who)


def _knowing(known: Chosen, model: str) -> Chosen:
    return replace(known, models=list(dict.fromkeys([model, known.live.model, *known.models]))[:MODELS])


async def _change(redis: Client, step: Callable[[Chosen], Chosen], who: str | None = None) -> None:
    while True:
        async with redis.pipeline(transaction=True) as pipe:
            await pipe.watch(EMBEDDER, SNAPSHOT_LEASE)
            raw, holder = await pipe.mget(EMBEDDER, SNAPSHOT_LEASE)
            if who is not None and holder != who.encode():
                raise LeaseLost("the lease on snapshots ran out before another embedder was live")
            if raw is None:
                raise WrongRebuildState("no process has said yet which embedder is live: start a worker first")
            known = json.decode(raw, type=Chosen)
            after = step(known)
            if after == known:
                return
            pipe.multi()
            pipe.set(EMBEDDER, json.encode(after))
            try:
                await pipe.execute()
            except WatchError:
                continue
            return
