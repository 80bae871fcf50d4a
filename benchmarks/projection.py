"""How fast does one worker project, and what does an event cost? Alone, on a log that was written before.

    python -m benchmarks.projection [--events 40000] [--mixed] [--json] [--profile FILE]

Starts a Valkey of its own, which fsyncs, in a folder that is deleted afterwards. Observations of about 600 bytes are
appended (with `--mixed`, of twenty events one memory, lesson, slot and action each, and six uses of tools), then the
runners of one worker project all of it: that is timed, with the processor time of this process and of Valkey. Nothing
is embedded, and no index follows. `--profile` writes the statistics of cProfile, which slows it down. Seed 20261121.
"""

import argparse
import asyncio
import cProfile
import json
import random
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.load import SEED, WORDS
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
from projections.health.vitals import wait_projected
from workers.host import RunnerHost

BATCH = 500
WAIT_S = 600.0
SYLLABLES = [
    "ba",
    "co",
    "di",
    "fer",
    "gra",
    "hol",
    "in",
    "jor",
    "ka",
    "lem",
    "mo",
    "nus",
    "or",
    "pel",
    "qui",
    "ra",
    "ster",
    "tun",
    "vek",
    "wil",
]
"""Words are made of two or three: some thousand of them, as a fleet's texts have, so that no cache holds all."""
TOOLS = ("Bash", "Read", "Edit", "Grep", "WebFetch")


def prose(dice: random.Random, words: int) -> str:
    """Sentences of made-up and technical words, with a path, a number or an identifier now and then."""
    said: list[str] = []
    while len(said) < words:
        sentence = [
            dice.choice(WORDS) if dice.random() < 0.5 else "".join(dice.choices(SYLLABLES, k=dice.randint(2, 3)))
            for _ in range(dice.randint(6, 14))
        ]
        match dice.randrange(6):
            case 0:
                sentence[-2] = f"src/{dice.choice(WORDS)}/{dice.choice(SYLLABLES)}.py:{dice.randint(1, 900)}"
            case 1:
                sentence[-2] = str(dice.randint(2, 9_000))
            case 2:
                sentence[-2] = f"{dice.choice(WORDS)}_{dice.choice(SYLLABLES)}"
            case _:
                pass
        sentence[0] = sentence[0].capitalize()
        sentence[-1] += "."
        said += sentence
    return " ".join(said)


def observation(number: int, dice: random.Random) -> dict[str, Any]:
    """An observation of about 600 bytes of JSON."""
    return {
        "type": "observe",
        "event_id": f"e{number}",
        "project": f"project-{number % 7}",
        "session_id": f"session-{number % 97}",
        "agent_id": f"agent-{number % 41}",
        "kind": "task",
        "content": prose(dice, 60),
        "occurred_at": "2026-01-31T12:00:00Z",
    }


def tool_use(number: int, dice: random.Random) -> dict[str, Any]:
    """An observation that a hook of a coding agent sends: a tool's input, and its output as JSON text."""
    path = f"src/{dice.choice(WORDS)}/{dice.choice(SYLLABLES)}.py"
    output = {"stdout": prose(dice, 30), "stderr": "", "interrupted": False, "filePath": path, "lines": [1, 2]}
    data = {
        "tool_name": dice.choice(TOOLS),
        "tool_input": {"command": f"pytest {path} -k {dice.choice(WORDS)}", "file_path": path},
        "tool_output": json.dumps(output),
    }
    return {**observation(number, dice), "kind": "post_tool_use", "content": "", "data": data}


def mixed(number: int, dice: random.Random) -> dict[str, Any]:
    """An event of a fleet's mix."""
    base = observation(number, dice)
    who = {name: base[name] for name in ("event_id", "project", "agent_id")}
    match number % 20:
        case 3:
            return {"type": "remember", "content": prose(dice, 25), "tags": dice.sample(WORDS, 2), **who}
        case 8:
            return {"type": "lesson", "content": " ".join(dice.choices(WORDS[:12], k=3)), **who}
        case 13:
            return {"type": "slot", "label": dice.choice(WORDS[:8]), "content": prose(dice, 8), **who}
        case 18:
            return {"type": "action", "title": f"{prose(dice, 8)[:80]} {number}", "priority": number % 5, **who}
        case 1 | 5 | 9 | 11 | 15 | 19:
            return tool_use(number, dice)
        case _:
            return base


async def append(log: RedisLog, events: int, make: Any) -> None:
    """Append so many events in batches."""
    dice = random.Random(SEED)
    handler = CommandHandler(GroupCommit(log), log.partitions)
    for start in range(0, events, BATCH):
        made = [make(number, dice) for number in range(start, min(events, start + BATCH))]
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
            host = RunnerHost(redis, blocking, log, str(new_event_id()), lambda partition, changes: None)
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
