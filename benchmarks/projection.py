"""How fast does one worker project, and what does an event cost? Alone, on a log that was written before.

    python -m benchmarks.projection [--events 40000] [--mixed] [--json] [--profile FILE]

Starts a Valkey of its own, which fsyncs, in a folder that is deleted afterwards. Observations of some 550 characters
are appended (with `--mixed`, of twenty events one memory, lesson, slot and action each, and six uses of tools), then
the runners of one worker project all of it: that is timed, with the processor time of this process and of Valkey.
Nothing is embedded, and no index follows. `--profile` writes the statistics of cProfile, which slows it down.
"""

import argparse
import asyncio
import cProfile
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.corpus import mixed, observation
from ingest.commands.decide import Caller
from ingest.commands.handler import CommandHandler
from ingest.commands.requests import WriteCommand
from ingest.embedded.valkey import EmbeddedValkey
from ingest.ids import new_event_id
from ingest.log.group_commit import GroupCommit
from ingest.log.position import Token
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from ingest.platform.processes import tune_interpreter
from projections.dead_letters.redriving import PartitionDeadLetters
from projections.health.samples import wait_projected
from workers.host import RunnerHost

BATCH = 500
WAIT_S = 600.0


async def append(log: RedisLog, events: int, make: Callable[[str, int], dict[str, Any]]) -> None:
    """Append so many events in batches."""
    handler = CommandHandler(GroupCommit(log), log.partitions)
    for start in range(0, events, BATCH):
        made = [make("projection", number) for number in range(start, min(events, start + BATCH))]
        outcome = await handler.handle_batch([msgspec.convert(one, WriteCommand) for one in made], Caller("default"))
        if outcome.rejected:
            raise RuntimeError(f"not all accepted: {outcome.rejected[0]}")


async def server_cpu_s(redis: Client) -> float:
    """Processor time of the server so far."""
    told = await redis.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


async def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The figures."""
    valkey = EmbeddedValkey(folder / "valkey")
    await asyncio.to_thread(valkey.start)
    try:
        async with AsyncExitStack() as stack:
            redis, blocking = connect(valkey.url), connect(valkey.url, connections=2 * options.partitions + 4)
            for client in (redis, blocking):
                stack.push_async_callback(client.aclose)
            log = RedisLog(redis, options.partitions)
            await log.create_or_check()
            await append(log, options.events, mixed if options.mixed else observation)
            heads = Token({partition: await log.head(partition) for partition in range(log.partitions)})
            tune_interpreter()
            host = RunnerHost(
                redis, blocking, log, str(new_event_id()), lambda partition, changes: None, PartitionDeadLetters
            )
            profile = cProfile.Profile() if options.profile else None
            server_s = await server_cpu_s(redis)
            began, cpu_s = time.perf_counter(), time.process_time()
            if profile:
                profile.enable()
            host.start()
            await wait_projected(redis, heads, WAIT_S)
            if profile:
                profile.disable()
                profile.dump_stats(options.profile)
            seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
            server_s = await server_cpu_s(redis) - server_s
            await host.aclose()
            return {
                "events": options.events,
                "seconds": round(seconds, 2),
                "events_per_s": round(options.events / seconds),
                "cpu_us_per_event": round(1e6 * cpu_s / options.events, 1),
                "server_cpu_us_per_event": round(1e6 * server_s / options.events, 1),
            }
    finally:
        await asyncio.to_thread(valkey.stop)


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--mixed", action="store_true", help="also memories, lessons, slots, actions, uses of tools")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", default="", help="where cProfile's statistics go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mnemo-") as folder:
        figures = await run(options, Path(folder))
    if options.json:
        print(json.dumps(figures))
        return
    table = Table(
        "figure", "value", title=f"projecting {options.events:,} {'mixed events' if options.mixed else 'observations'}"
    )
    for name, value in figures.items():
        table.add_row(name, f"{value:,}")
    Console().print(table)


if __name__ == "__main__":
    uvloop.run(main())
