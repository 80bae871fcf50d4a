"""Does the server's memory stay flat under endless load? A short run, and one `--times` as long, of one steady load.

Question: is used_memory at the end of the long run at most 1.2 times what it is at the end of the short one?

    python -m benchmarks.flat_memory [--seconds 300] [--times 10] [--rate 200] [--retain 150] [--archive-after 30]

It starts a stack of its own on a free port in a temporary folder (embedded Valkey, worker, API; no embedder unless
`--embedder` names one) and ends it. A fleet works in `--sessions` sessions at a time, of `--per-session` observations
of some 550 characters each; a session that has them ends and another begins. Every 20th session keeps a memory and
says one of 50 lessons. Seed 20261121. Sessions are retired `--retain` seconds after they fell silent, the dedup window
is `--window` seconds, and log entries older than `--archive-after` seconds go to the archive.
Choose `--seconds` so that the short run is in its steady state: a session's own time, retention and a minute of upkeep.

The long run goes on where the short one is measured: used_memory and the bytes of the data set, after MEMORY PURGE,
each the mean of what is read every five seconds of the last `--mean-of` seconds, under load.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.corpus import text
from benchmarks.key_families import Family, families, show
from benchmarks.stack import Stack
from benchmarks.wire import Http
from ingest.platform.connections import Client, connect

BAR = 1.2
TICK_S = 0.25
READ_EVERY_S = 5.0
KEEPING = 20
"""Every so many sessions, one keeps a memory and says a lesson."""
LESSONS = 50


class Reading(NamedTuple):
    """Memory of the server, in bytes."""

    used: float
    dataset: float


class Fleet:
    """What the agents say, as commands of `POST /v1/events`."""

    def __init__(self, sessions: int, per_session: int) -> None:
        self._per_session = per_session
        self._begun = 0
        self._working = [self._begin(n * per_session // sessions) for n in range(sessions)]
        self.observed = self.ended = 0

    def say(self, count: int) -> list[dict[str, Any]]:
        """Some more observations, of the sessions in turn, and what else comes of it."""
        said: list[dict[str, Any]] = []
        for _ in range(count):
            session = self._working.pop(0)
            said.append({"type": "observe", "kind": "tool", **session[0], "content": text(self.observed)})
            self.observed += 1
            if session[1] + 1 < self._per_session:
                self._working.append((session[0], session[1] + 1))
                continue
            said += self._end(session[0])
            self._working.append(self._begin(0))
        return said

    def _begin(self, said: int) -> tuple[dict[str, str], int]:
        self._begun += 1
        place = {"session_id": f"session-{self._begun}", "project": f"project-{self._begun % 8}"}
        return {**place, "agent_id": f"agent-{self._begun % 40}"}, said

    def _end(self, session: dict[str, str]) -> list[dict[str, Any]]:
        self.ended += 1
        said: list[dict[str, Any]] = [{"type": "session", "status": "ended", **session}]
        if self.ended % KEEPING == 0:
            said.append({"type": "remember", **session, "content": text(self.observed, 150)})
            lesson = f"Lesson {self.ended % LESSONS} of the fleet"
            said.append({"type": "lesson", **session, "content": lesson})
        return said


async def work(url: str, fleet: Fleet, rate: int) -> None:
    """Send at a steady rate, for ever; a tick that comes late is made up for, so the mean holds."""
    http = Http(url, None)
    await http.open()
    began, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate) - sent
        if due:
            answer = json.loads(await http.post("/v1/events", json.dumps(fleet.say(due)).encode()))
            assert not answer["rejected"], answer["rejected"][:3]
            sent += due
        await asyncio.sleep(TICK_S)


async def read(redis: Client) -> Reading:
    """What the server uses now."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.execute_command("MEMORY", "PURGE")
        await pipe.execute()
    told = await redis.info("memory")
    return Reading(told["used_memory"], told["used_memory_dataset"])


async def follow(redis: Client, seconds: float, mean_of: float, fleet: Fleet) -> Reading:
    """Wait, tell now and then how it goes, and return the mean of the last readings."""
    began, found, told = time.monotonic(), list[Reading](), 0.0
    while (passed := time.monotonic() - began) < seconds:
        await asyncio.sleep(min(READ_EVERY_S, seconds - passed))
        reading = await read(redis)
        if time.monotonic() - began >= seconds - mean_of:
            found.append(reading)
        if time.monotonic() - told >= 60:
            told = time.monotonic()
            at = f"{fleet.observed:>9,} observations, {fleet.ended:>6,} sessions ended"
            print(f"  {time.monotonic() - began:>6.0f} s {at}: {reading.used / 1e6:.1f} MB", flush=True)
    return Reading(mean(one.used for one in found), mean(one.dataset for one in found))


async def measure(chosen: argparse.Namespace, stack: Stack) -> int:
    """Both runs; returns the exit code."""
    redis = connect(stack.redis_url)
    fleet = Fleet(chosen.sessions, chosen.per_session)
    working = asyncio.create_task(work(stack.url, fleet, chosen.rate))
    try:
        short = await follow(redis, chosen.seconds, chosen.mean_of, fleet)
        first = fleet.observed
        told("short", first, short)
        before = await families(redis, chosen.samples)
        show(before, first)
        long = await follow(redis, chosen.seconds * (chosen.times - 1), chosen.mean_of, fleet)
        told("long", fleet.observed, long)
        after = await families(redis, chosen.samples)
        show(after, fleet.observed)
        if working.done():
            working.result()
    finally:
        working.cancel()
        await redis.aclose()
    ratio = long.used / short.used
    growth = (long.used - short.used) / (fleet.observed - first)
    print(f"ratio of used_memory {ratio:.3f} (bar {BAR}), of the data set {long.dataset / short.dataset:.3f}")
    print(f"ratio of all keys but the log {but_the_log(after) / but_the_log(before):.3f}")
    print(f"growth {growth:.1f} bytes an observation, {fleet.observed / first:.1f} times as many")
    return 0 if ratio <= BAR else 1


def but_the_log(found: Sequence[Family]) -> int:
    """Bytes of everything else: what to look at where there is no archive."""
    return sum(one.bytes for one in found if one.name != "log")


def told(name: str, observed: int, reading: Reading) -> None:
    """Print one measurement."""
    print(f"{name}: {observed:,} observations, used_memory {reading.used:,.0f}, data set {reading.dataset:,.0f}")


def settings(chosen: argparse.Namespace) -> dict[str, str]:
    """Those of the stack."""
    return {
        "partitions": str(chosen.partitions),
        "embedder": chosen.embedder,
        "embedding_cache_days": str(chosen.retain / 86_400),
        "snapshot_every": "500",
        "retain_sessions": str(chosen.retain / 86_400),
        "dedup_window": str(chosen.window),
        "archive": "{folder}/archive",
        "archive_after": str(chosen.archive_after),
    }


def main() -> int:
    """Run it; exit code 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300, help="of the short run")
    parser.add_argument("--times", type=float, default=10, help="how many times as long the long run is")
    parser.add_argument("--rate", type=int, default=200, help="observations a second")
    parser.add_argument("--sessions", type=int, default=40, help="at a time")
    parser.add_argument("--per-session", type=int, default=200, help="observations")
    parser.add_argument("--retain", type=float, default=150, help="seconds")
    parser.add_argument("--archive-after", type=int, default=30, help="seconds")
    parser.add_argument("--window", type=int, default=30, help="seconds of the dedup window")
    parser.add_argument("--mean-of", type=float, default=60, help="seconds at the end of a run")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--samples", type=int, default=100, help="keys measured of each family")
    parser.add_argument("--embedder", default="none")
    chosen = parser.parse_args()
    with Stack(**settings(chosen)) as stack:
        return asyncio.run(measure(chosen, stack))


if __name__ == "__main__":
    sys.exit(main())
