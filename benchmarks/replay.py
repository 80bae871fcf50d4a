"""How fast is a replay of archive and stream, and does it end where the live projection is, byte for byte?

    python -m benchmarks.replay [--events 200000] [--partitions 16] [--archived 0.8] [--archive DIRECTORY-OR-URL]

A fleet's load (of twenty events one memory, lesson, slot and action each, six uses of tools, ten notes of some 550
characters) is appended to an embedded Valkey that fsyncs each append, and projected by runners in this process. Of a
thousand events one memory is forgotten, half of them after `--archived` of the log was sealed and trimmed. Then every
partition is rebuilt from position zero into the next generation: that is what is timed (reading, decoding, folding,
saving; one partition after the other). At the end the document manifests of both generations are compared: a digest
of every document and listing. Exit code 1 when they differ. Nothing is embedded. Seed 20261121.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.corpus import mixed
from ingest.commands.decide import Caller
from ingest.commands.handler import CommandHandler
from ingest.commands.requests import WriteCommand
from ingest.embedded.valkey import EmbeddedValkey
from ingest.ids import MEMORY, document_id, new_event_id
from ingest.log.archive.archive import Archive, look
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import Sealing
from ingest.log.archive.store import store_of
from ingest.log.group_commit import GroupCommit
from ingest.log.partitions import project_route
from ingest.log.position import START, Position, Token
from ingest.platform.connections import Client, connect
from projections.dead_letters.redriving import PartitionDeadLetters
from projections.documents.access import Reader
from projections.forgetting.forget import Forgetting
from projections.health.samples import wait_projected
from projections.maintenance.manifests import differences, manifest_of
from projections.operations.current import Current
from projections.queries.documents import DocumentReader
from projections.rebuilding.generations import fill, switch
from workers.host import RunnerHost

BATCH = 500
TENANT = "default"
LATE = Position(10**14 - 1, 0)
FORGET_EVERY = 1_000
WAIT_S = 600.0


class Bench:
    """One log on one embedded server, and what is done to it."""

    def __init__(self, redis: Client, log: ArchivedLog, progress: Progress) -> None:
        self.redis, self.log, self._progress = redis, log, progress
        self._handler = CommandHandler(GroupCommit(log), log.partitions)
        self._memories: list[str] = []

    async def append(self, events: int) -> float:
        """Append so many events in batches; returns the seconds."""
        task = self._progress.add_task("append", total=events)
        began = time.perf_counter()
        for start in range(0, events, BATCH):
            made = [mixed("replay", number) for number in range(start, min(events, start + BATCH))]
            commands: list[WriteCommand] = [msgspec.convert(one, WriteCommand) for one in made]
            outcome = await self._handler.handle_batch(commands, Caller(TENANT))
            if outcome.rejected:
                raise RuntimeError(f"not all accepted: {outcome.rejected[0]}")
            self._memories += (
                document_id(MEMORY, project_route(TENANT, one["project"]), one["event_id"])
                for number, one in enumerate(made, start)
                if one["type"] == "remember" and number % FORGET_EVERY == 3
            )
            self._progress.update(task, advance=len(made))
        return time.perf_counter() - began

    async def settle(self) -> None:
        """Return when everything is projected."""
        task = self._progress.add_task("project", total=None)
        heads = Token({partition: await self.log.head(partition) for partition in range(self.log.partitions)})
        await wait_projected(self.redis, heads, WAIT_S)
        self._progress.remove_task(task)

    async def forget(self, part: slice) -> int:
        """Forget some of the memories; returns how many."""
        documents = DocumentReader(self.redis, self.log.partitions)
        current = Current(self._handler, documents, self.log, partial(wait_projected, self.redis, timeout_s=WAIT_S))
        names: Sequence[str] = self._memories[part]
        await Forgetting(current).documents(names, Reader(TENANT, operator=True), Caller(TENANT))
        await self.settle()
        return len(names)

    async def archive(self, share: float) -> float:
        """Seal and trim a share of each partition; returns the seconds."""
        sealing = Sealing(self.redis, self.log)
        task = self._progress.add_task("archive", total=self.log.partitions)
        began = time.perf_counter()
        for partition in range(self.log.partitions):
            until = await self._place(partition, share)
            while await sealing.seal(partition, until, LATE):
                await sealing.let_go(partition)
            self._progress.advance(task)
        return time.perf_counter() - began

    async def replay(self) -> float:
        """Rebuild all partitions, one after the other; returns the seconds."""
        task = self._progress.add_task("replay", total=self.log.partitions)
        began = time.perf_counter()
        for number in range(self.log.partitions):
            while not (await fill(self.redis, self.log, number, 2, WAIT_S)).level:
                continue
            assert await switch(self.redis, number, 1, 2)
            self._progress.advance(task)
        return time.perf_counter() - began

    async def entries(self) -> tuple[int, int]:
        """Entries in the archive and in the streams."""
        told = [await look(self.redis, self.log.archive, partition) for partition in range(self.log.partitions)]
        return sum(one.entries for one in told), sum(one.waiting for one in told)

    async def _place(self, partition: int, share: float) -> Position:
        positions: list[Position] = []
        while rows := await self.log.read(partition, positions[-1] if positions else START, 2_000):
            positions += (row.position for row in rows)
        return positions[int(len(positions) * share) - 1] if len(positions) * share >= 1 else START


async def run(options: argparse.Namespace, folder: Path, progress: Progress) -> dict[str, Any]:
    """The figures; `differences` must be empty."""
    valkey = EmbeddedValkey(folder / "valkey")
    await asyncio.to_thread(valkey.start)
    try:
        async with AsyncExitStack() as stack:
            redis, blocking = connect(valkey.url), connect(valkey.url, connections=2 * options.partitions + 4)
            for client in (redis, blocking):
                stack.push_async_callback(client.aclose)
            place = options.archive or str(folder / "archive")
            log = ArchivedLog(redis, options.partitions, Archive(redis, store_of(place)))
            await log.create_or_check()
            bench = Bench(redis, log, progress)
            host = RunnerHost(
                redis, blocking, log, str(new_event_id()), lambda partition, changes: None, PartitionDeadLetters
            )
            host.start()
            began = time.perf_counter()
            appended_s = await bench.append(options.events)
            await bench.settle()
            live_s = time.perf_counter() - began
            forgotten = await bench.forget(slice(None, None, 2))
            archived_s = await bench.archive(options.archived)
            forgotten += await bench.forget(slice(1, None, 2))
            archived, in_stream = await bench.entries()
            live = await manifest_of(redis, range(options.partitions), 1)
            replayed_s = await bench.replay()
            again = await manifest_of(redis, range(options.partitions), 2)
            await host.aclose()
            total = sum(len(one.documents) for one in live.partitions.values())
            return {
                "events": options.events,
                "forgotten": forgotten,
                "archived_entries": archived,
                "stream_entries": in_stream,
                "append_per_s": round(options.events / appended_s),
                "append_and_project_per_s": round(options.events / live_s),
                "archive_per_s": round(archived / archived_s),
                "replay_per_s": round((archived + in_stream) / replayed_s),
                "replay_s": round(replayed_s, 1),
                "documents": total,
                "differences": [str(one) for one in differences(live, again)],
            }
    finally:
        await asyncio.to_thread(valkey.stop)


async def main() -> int:
    """Print the figures; 1 when live and replayed documents differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--archived", type=float, default=0.8, help="share of each partition that is archived")
    parser.add_argument("--archive", default="", help="directory or URL; else a folder that is deleted afterwards")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="mnemo-") as folder, Progress(console=console, transient=True) as progress:
        figures = await run(options, Path(folder), progress)
    if options.json:
        print(json.dumps(figures))
    else:
        table = Table("figure", "value", title=f"replay of {options.events:,} events, {options.partitions} partitions")
        for name, value in figures.items():
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
        Console().print(table)
    return 1 if figures["differences"] else 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
