from collections.abc import Callable

from ingest.platform.connections import Client
from projections.documents.index_entry import IndexEntry
from projections.search_engine import schema
from projections.search_engine.layout import ALIAS, READY, Identity, PartitionIndex
from projections.search_engine.schema import Catalogue, Named, begun
from projections.search_engine.writing import Changes, Standing, begin, placed, write
from projections.store.feed import Put


async def test_an_index_is_created_once_and_has_the_options_that_it_needs(engine: Client, index: Named):
    await schema.create(engine, index)
    assert await schema.names(engine) == {index.name}


async def test_the_catalogue_is_exchanged_by_one_of_two(engine: Client):
    identity = Identity(model="m", dimensions=0, vector_dimensions=0)
    one = other = await schema.read_catalogue(engine)
    then = await schema.exchange(engine, one, begun(one.catalogue, identity))
    assert then is not None
    assert await schema.exchange(engine, other, begun(other.catalogue, identity)) is None
    assert await schema.read_catalogue(engine) == then
    assert await schema.exchange(engine, then, Catalogue()) is not None


async def test_an_index_is_dropped_with_all_its_keys_and_no_others(
    engine: Client, index: Named, entry: Callable[..., IndexEntry]
):
    other = Named(f"{index.name}1", index.identity)
    await schema.create(engine, other)
    for one in (index, other):
        keys = PartitionIndex(one.name, 0)
        state = await begin(engine, keys, None, Standing(1, "0-0", "0-0", READY))
        items = [Put(entry(f"obs_{n}", "red", episode="e")) for n in range(3)]
        changes = Changes(one.identity, None).of(0, placed(items, state.position))
        await write(engine, keys, state, changes, Standing(1, "1-0", "1-0", READY))
    await schema.point_alias(engine, index.name)
    await schema.point_alias(engine, other.name)
    await schema.drop(engine, index.name)
    await schema.drop(engine, index.name)
    assert await schema.names(engine) == {other.name}
    assert (await schema.command(engine, "FT.SEARCH", ALIAS, "*", "LIMIT", 0, 0))[0] == 3
    left = [key.decode() async for key in engine.scan_iter(match="*", count=100)]
    assert len(left) == 5
    assert all(key.startswith(f"{other.name}:") for key in left)
