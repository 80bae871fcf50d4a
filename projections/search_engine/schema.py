"""The indexes of an engine: creating one, switching readers to another, dropping an old one with all its keys.

The catalogue is one key, exchanged as a whole, so only one worker at a time changes it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, json
from msgspec.structs import replace
from redis.exceptions import ResponseError

from ingest.log.scripts import Script
from ingest.platform.connections import Client, ask
from projections.search_engine.layout import (
    ALIAS,
    CATALOGUE,
    FACETS,
    INDEX_PREFIX,
    NUMERIC,
    SEPARATOR,
    SORTABLE,
    TERMS,
    VECTOR,
    Identity,
)

M, EF_CONSTRUCTION = 16, 60
"""Of the graph: those of the embedded index. With M 8 the index of a document takes 550 B, not 605, and finds less."""
KEYS_AT_ONCE = 500
"""Deleted in one step: each document leaves the index then, which holds the engine for some microseconds each."""

_EXCHANGE = Script("exchange", package="projections.search_engine")


class Named(Struct, frozen=True):
    """An index: its name in the engine, what its keys begin with, and what it was made with."""

    name: str
    identity: Identity


class Catalogue(Struct, frozen=True, kw_only=True):
    """Which index readers use, which one is being filled to take its place, and which are to be dropped."""

    live: Named | None = None
    filling: Named | None = None
    leaving: list[str] = []
    newest: int = 0
    """The number of the newest index that was ever begun; none is used twice."""

    @property
    def filled(self) -> list[Named]:
        """The indexes that are to be kept up with the feeds."""
        return [index for index in (self.live, self.filling) if index is not None]


def begun(catalogue: Catalogue, identity: Identity, tag: str = "") -> Catalogue:
    """With an index of an identity being filled, instead of the previous one.

    `tag` makes its name differ from that of any index before the engine was emptied.
    """
    newest = catalogue.newest + 1
    leaving = [*catalogue.leaving, *([catalogue.filling.name] if catalogue.filling else [])]
    return replace(catalogue, filling=Named(f"{INDEX_PREFIX}{newest}{tag}", identity), leaving=leaving, newest=newest)


def switched(catalogue: Catalogue) -> Catalogue:
    """With the index that is filled as the live one; the old one will be dropped."""
    leaving = [*catalogue.leaving, *([catalogue.live.name] if catalogue.live else [])]
    return replace(catalogue, live=catalogue.filling, filling=None, leaving=leaving)


def without(catalogue: Catalogue, name: str) -> Catalogue:
    """Without an index, which will be dropped: it is damaged, or not required any more."""
    live, filling = (
        index if index is None or index.name != name else None for index in (catalogue.live, catalogue.filling)
    )
    return replace(catalogue, live=live, filling=filling, leaving=[*catalogue.leaving, name])


def dropped(catalogue: Catalogue, name: str) -> Catalogue:
    """Without any trace of an index."""
    return replace(catalogue, leaving=[leaving for leaving in catalogue.leaving if leaving != name])


def create_arguments(name: str, identity: Identity) -> list[str | int]:
    """The words of FT.CREATE for an index."""
    schema: list[str | int] = []
    for facet in FACETS:
        schema += [facet, "TAG", "SEPARATOR", SEPARATOR, "CASESENSITIVE"]
    for number in NUMERIC:
        schema += [number, "NUMERIC", *(["SORTABLE"] if number in SORTABLE else [])]
    schema += [TERMS, "TEXT", "NOSTEM"]
    if identity.vector_dimensions:
        graph: list[str | int] = [
            "TYPE", "FLOAT16", "DIM", identity.vector_dimensions, "DISTANCE_METRIC", "COSINE",
            "M", M, "EF_CONSTRUCTION", EF_CONSTRUCTION,
        ]  # fmt: skip
        schema += [VECTOR, "VECTOR", "HNSW", len(graph), *graph]
    return [
        "FT.CREATE", name, "ON", "HASH", "PREFIX", 1, f"{name}:d:",
        "NOOFFSETS", "NOHL", "NOFIELDS", "STOPWORDS", 0, "SCHEMA", *schema,
    ]  # fmt: skip


class Read(NamedTuple):
    """The catalogue, and its bytes, by which it is exchanged."""

    catalogue: Catalogue
    raw: bytes


async def read_catalogue(engine: Client) -> Read:
    """The current catalogue, empty before the first index."""
    raw: bytes = await engine.get(CATALOGUE) or b""
    return Read(json.decode(raw, type=Catalogue) if raw else Catalogue(), raw)


async def exchange(engine: Client, read: Read, then: Catalogue) -> Read | None:
    """Replace the catalogue that was read; None when it has changed since."""
    raw = json.encode(then)
    done = await _EXCHANGE.call(engine, [CATALOGUE], [read.raw, raw])
    return Read(then, raw) if done else None


async def command(engine: Client, *words: str | bytes | int) -> Any:
    """The answer to one command; raises the error that the engine answers."""
    (answer,) = await ask(engine, [words])
    if isinstance(answer, Exception):
        raise answer
    return answer


async def names(engine: Client) -> set[str]:
    """The indexes that the engine has. Raises ResponseError for a server that is no search engine."""
    answer: Sequence[bytes | str] = await command(engine, "FT._LIST")
    return {name.decode() if isinstance(name, bytes) else name for name in answer}


async def create(engine: Client, index: Named) -> None:
    """Create an index; does nothing where it is there."""
    try:
        await command(engine, *create_arguments(index.name, index.identity))
    except ResponseError as error:
        if "already exists" not in str(error):
            raise


async def point_alias(engine: Client, name: str) -> None:
    """Have the alias name an index."""
    await command(engine, "FT.ALIASUPDATE", ALIAS, name)


async def drop(engine: Client, name: str) -> bool:
    """Delete an index and all its keys, some at a time; returns whether there was anything.

    A crash leaves some: doing it again deletes them.
    """
    existed = name in await names(engine)
    if existed:
        await command(engine, "FT.DROPINDEX", name)
    keys: list[bytes] = []
    async for key in engine.scan_iter(match=f"{name}:*", count=1000):
        keys.append(key)
        existed = True
        if len(keys) == KEYS_AT_ONCE:
            await _unlink(engine, keys)
            keys = []
    await _unlink(engine, keys)
    return existed


async def _unlink(engine: Client, keys: Sequence[bytes]) -> None:
    async with engine.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.unlink(key)
        await pipe.execute()
