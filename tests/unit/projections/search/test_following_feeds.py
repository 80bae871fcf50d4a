"""Following the feeds: entries are applied in their order, and reads wait for positions."""

import asyncio
from collections.abc import Callable
from typing import cast

from ingest.log.position import Position, Token
from ingest.platform.connections import Client
from projections.documents.index_entry import IndexEntry
from projections.search.replica import IndexReplica, apply_steps, steps_of
from projections.search.waiting import Waiting
from projections.store.feed import FeedItem, Put, Remove, entry_fields


class Following(Waiting):
    """Covers what a test says."""

    covered = Position(0, 0)

    @property
    def applied(self) -> dict[int, Position]:
        return {0: self.covered}

    async def cover(self, ms: int) -> None:
        """Everything up to a millisecond is applied, and whoever waits has looked."""
        self.covered = Position(ms, 0)
        await self._notify()
        await asyncio.sleep(0.01)


async def test_a_read_waits_until_all_of_its_token_is_applied():
    following = Following(cast(Client, None), partitions=1)
    read = asyncio.create_task(following.wait_for(Token({0: Position(5, 0)}), 30))
    await asyncio.sleep(0)
    await following.cover(4)
    assert not read.done()
    await following.cover(5)
    assert read.done()
    await read


def test_entries_are_applied_in_the_order_of_the_feed(index: IndexReplica, entry: Callable[..., IndexEntry]):
    batches: list[list[FeedItem]] = [[Put(entry("mem_1", "tea"))], [Remove("mem_1")], [Put(entry("mem_2", "tea"))]]
    fields = [entry_fields(items, Position(n, 0)) for n, items in enumerate(batches, 1)]
    entries = [{name.encode(): value for name, value in one.items()} for one in fields]
    apply_steps(index, 0, steps_of(entries))
    assert list(index.ordinal_of) == ["mem_2"]
