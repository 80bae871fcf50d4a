"""Kills the API, the worker and Valkey while clients write, then compares the log with what was acknowledged.

    python -m benchmarks.kill [--writers 16] [--rounds 2]

A writer sends one observation per request and waits for its acknowledgment. Without one (a lost connection, a time-out,
a refusal) it sends the same write again, with the same event id. One in twenty acknowledged writes is also sent again.
The server has default settings. Exits 1 if the log lacks an acknowledged write, has one twice, or has one at another
position than the acknowledgment named.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count

import uvloop

from benchmarks.corpus import observation
from benchmarks.driving import Pool, Refused, partitions, until
from benchmarks.servers import Stack
from ingest.log.event_log import pages
from ingest.log.position import Token
from ingest.log.redis_log import RedisLog
from ingest.nouns.registry import decode
from ingest.platform.connections import connect

RUN = "kill"
VICTIMS = ("api", "worker", "valkey")
CALM_S = 2.0  # of writes before each kill
ANSWER_WITHIN_S = 10.0
AGAIN_AFTER_S = 0.05
SHOW_EVERY_S = 0.25
REPEATED = 20
RED, GREEN = 31, 32


def compare(acknowledged: Mapping[str, Token], log: Iterable[tuple[str, Token]]) -> dict[str, int]:
    """How the event ids and positions in the log differ from those that were acknowledged."""
    positions = defaultdict[str, list[Token]](list)
    for event_id, position in log:
        positions[event_id].append(position)
    stored, entries = acknowledged.keys() & positions.keys(), sum(map(len, positions.values()))
    return {
        "acknowledged": len(acknowledged),
        "in the log": entries,
        "lost": len(acknowledged) - len(stored),
        "duplicates": entries - len(positions),
        "at another position": sum(acknowledged[event_id] not in positions[event_id] for event_id in stored),
    }


class Storm:
    """Clients that write while processes are killed, and their ledger: positions of acknowledged writes by event id."""

    def __init__(self, stack: Stack, writers: int) -> None:
        self.acknowledged: dict[str, Token] = {}
        self.retried, self.repeated = set[int](), set[int]()
        """Numbers of writes that were sent again without an acknowledgment, and after one."""
        self._stack, self._writers, self._began = stack, writers, time.monotonic()
        self._newest, self._over = 0.0, False

    async def run(self, rounds: int) -> None:
        """Kill each process so often; returns when every write is acknowledged."""
        print(f"{self._writers} clients write; Valkey, worker and API run with default settings")
        writing = [asyncio.create_task(self._write(number)) for number in range(self._writers)]
        counting = asyncio.create_task(self._show_count())
        for name in VICTIMS * rounds:
            await asyncio.sleep(CALM_S)
            killed = await self._kill(name)

            async def acknowledged_since(killed: float = killed) -> bool:
                return self._newest > killed

            self._show(colored(f"kill -9 {name}", RED))
            await until(acknowledged_since, 0.01)
            self._show(f"next acknowledgment after {time.monotonic() - killed:.1f} s")
        await asyncio.sleep(CALM_S)
        self._over = True
        await asyncio.gather(*writing)
        counting.cancel()
        self._show("the last write is acknowledged")

    async def _write(self, first: int) -> None:
        pool = Pool(self._stack.url)
        for number in count(first, self._writers):
            if self._over:
                break
            event = {name: value for name, value in observation(RUN, number).items() if name != "type"}
            body, sent = json.dumps(event).encode(), time.monotonic()
            self.acknowledged[event["event_id"]] = await self._send(pool, number, body)
            self._newest = max(self._newest, sent)
            if number % REPEATED == 0:
                await self._send(pool, number, body)
                self.repeated.add(number)

    async def _send(self, pool: Pool, number: int, body: bytes) -> Token:
        """The position of a write, however often it has to be sent."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    return Token.parse((await pool.send("/v1/observations", body))["position"])
            except (OSError, EOFError, Refused):
                pool.close()
                self.retried.add(number)
                await asyncio.sleep(AGAIN_AFTER_S)

    async def _kill(self, name: str) -> float:
        """Kill a process as soon as it runs (the supervisor waits longer after each death); returns when."""
        while True:
            try:
                os.kill(await self._stack.pid(name), signal.SIGKILL)
                return time.monotonic()
            except RuntimeError:
                await asyncio.sleep(SHOW_EVERY_S)

    async def _show_count(self) -> None:
        while sys.stdout.isatty():
            self._show(end="")
            await asyncio.sleep(SHOW_EVERY_S)

    def _show(self, text: str = "", end: str = "\n") -> None:
        start, clear = ("\r", "\x1b[K") if sys.stdout.isatty() else ("", "")
        counted = f"{time.monotonic() - self._began:5.1f} s {len(self.acknowledged):8,} acknowledged"
        print(f"{start}{counted}  {text}{clear}", end=end, flush=True)


def colored(text: str, color: int) -> str:
    """Bold and in a color, on a terminal."""
    return f"\x1b[1;{color}m{text}\x1b[0m" if sys.stdout.isatty() else text


async def entries_of(stack: Stack) -> list[tuple[str, Token]]:
    """Event id and position of every entry of the writers, read from Valkey."""
    redis, entries = connect(stack.redis_url), list[tuple[str, Token]]()
    log = RedisLog(redis, len(await partitions(Pool(stack.url))))
    for partition in range(log.partitions):
        async for page in pages(log, partition):
            for position, payload in page:
                entries.append((decode(payload, position).envelope.event_id, Token({partition: position})))
    await redis.aclose()
    return [entry for entry in entries if entry[0].startswith(f"{RUN}-")]


async def kill(stack: Stack, writers: int, rounds: int) -> bool:
    """Run the storm and print the ledger's counts; whether the log has what was acknowledged."""
    storm = Storm(stack, writers)
    await storm.run(rounds)
    counts = compare(storm.acknowledged, await entries_of(stack))
    faultless = not any(number for name, number in counts.items() if name not in ("acknowledged", "in the log"))
    print("\nthe log, read entry by entry, compared with the ledger of the clients:")
    counts |= {"retried after a kill": len(storm.retried), "repeated on purpose": len(storm.repeated)}
    for name, number in counts.items():
        print(colored(f"  {name:24}{number:8,}", GREEN if faultless else RED))
    return faultless


def main() -> int:
    """Run it; 1 if something was lost, duplicated or misplaced."""
    parser = argparse.ArgumentParser("python -m benchmarks.kill", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2, help="how often each process is killed")
    options = parser.parse_args()
    with Stack() as stack:
        return 0 if uvloop.run(kill(stack, options.writers, options.rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
