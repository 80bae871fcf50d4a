"""What becomes of the vectors of tokens, against a real Valkey: they come with a text's vector, and go with it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from workshop import PARTITIONS, HashEmbedder, Workshop

from ingest.log.keys import PartitionKeys, embedding
from ingest.platform.connections import Client
from projections.search import snapshots
from projections.search.replica import trim_feed
from projections.vectors.embedder import FixedEmbedder, cache_key
from projections.vectors.tokens import TOKEN_DIMENSIONS, Tokens
from tests.conformance.interruptions import forget

SECRET, KEPT = "the vault is behind the mirror", "tea is served at four"


class TokenHashEmbedder(HashEmbedder):
    """The same with two tokens of each text."""

    model = "test/hash+tokens"

    def embed_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[Tokens]]:
        return self.embed(texts), [tokens_of(text) for text in texts]


def tokens_of(text: str) -> Tokens:
    return np.resize((HashEmbedder.vector(text) * 127).astype(np.int8), (2, TOKEN_DIMENSIONS))


@pytest.fixture
def shop(redis: Client, tmp_path: Path) -> Workshop:
    shop = Workshop(redis, tmp_path)
    shop.embedders = FixedEmbedder(TokenHashEmbedder())
    return shop


async def embedded(shop: Workshop) -> dict[str, str]:
    """The ids of two memories that are embedded, and in a snapshot."""
    names = {text: (await shop.remember(text)).id for text in (SECRET, KEPT)}
    await shop.project()
    while await shop.embedding_queue().work(range(PARTITIONS)):
        pass
    await shop.snapshot_job().run(force=True)
    return names


def in_newest_snapshot(shop: Workshop) -> dict[str, list[list[int]]]:
    """The tokens of each document there."""
    loaded = snapshots.load_newest(shop.snapshots, TokenHashEmbedder.model)
    assert loaded is not None
    index = loaded[0]
    return {name: index.tokens.rows(ordinal).tolist() for name, ordinal in index.ordinal_of.items()}


async def test_tokens_are_cached_with_the_vector_and_indexed(shop: Workshop):
    names = await embedded(shop)
    assert in_newest_snapshot(shop) == {name: tokens_of(text).tolist() for text, name in names.items()}
    cached = await shop.redis.get(embedding(cache_key(TokenHashEmbedder.model, SECRET)))
    assert cached is not None
    assert cached.endswith(tokens_of(SECRET).tobytes())


async def is_stored(shop: Workshop, part: bytes) -> bool:
    """Whether the cached value of the secret, or any change feed, has these bytes."""
    values: list[bytes] = [await shop.redis.get(embedding(cache_key(TokenHashEmbedder.model, SECRET))) or b""]
    for partition in range(PARTITIONS):
        feed = await shop.redis.xrange(PartitionKeys(partition).of_generation(1).changes)
        values += [value for _, fields in feed for value in fields.values()]
    return any(part in value for value in values)


async def test_forgetting_deletes_them_with_the_vector(shop: Workshop):
    names = await embedded(shop)
    secret = tokens_of(SECRET)[0].tobytes()
    assert await is_stored(shop, secret)
    await forget(shop, names[SECRET])
    await shop.purge().run()
    assert in_newest_snapshot(shop).keys() == {names[KEPT]}
    assert not [path for path in shop.snapshots.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert not await is_stored(shop, secret)


async def test_an_index_that_is_made_again_has_them(shop: Workshop):
    """Of documents and cache: there is no snapshot, and the feed is trimmed."""
    names = await embedded(shop)
    loaded = snapshots.load_newest(shop.snapshots, TokenHashEmbedder.model)
    assert loaded is not None
    for partition, at in loaded[1].partitions.items():
        await trim_feed(shop.redis, partition, at)
    for path in shop.snapshots.iterdir():
        path.rename(shop.folder / path.name)
    await shop.snapshot_job().run(force=True)
    assert in_newest_snapshot(shop) == {name: tokens_of(text).tolist() for text, name in names.items()}
    assert not await shop.redis.zcard(PartitionKeys(0).of_generation(1).embed_queue)
