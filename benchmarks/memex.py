"""What does memex's published load get from our listener? 50 users, three searches to one new memory.

    MNEMOLOG_DROP_IN=memex RATE_LIMIT_WRITES_PER_MINUTE=999999 RATE_LIMIT_SEARCHES_PER_MINUTE=999999 mnemolog up
    python -m benchmarks.memex [--users 50] [--seconds 60] [--kind steady|pausing|both] [--url http://127.0.0.1:8000]

The load of memex's own script: 1,000 memories of 20 agents and 10 users each are stored from 32 connections first. Then
users come, ten a second; of four requests three are searches (`top_k` 5, `alpha` 0.7, one of eight queries) and one
stores a memory. A steady user aims at 20 requests a second, so 50 of them ask for 1,000 at most; a pausing one waits
100 to 300 ms between two. What counts begins when all users are there. Beside it: the same load on a server that does
nothing.
"""

import argparse
import asyncio
import json
import random
import time
from typing import Any

import uvloop

from benchmarks.corpus import SEED, question, text
from benchmarks.driving import Load, closed_loop
from benchmarks.hello import hello
from benchmarks.wire import Http, Refused

AGENTS, USERS, EACH = 20, 10, 5
SEEDING = 32
QUERIES = [question(number) for number in range(8)]
TEXTS = [text(number, 120) for number in range(15)]
USERS_A_SECOND = 10
STEADY_S = 1 / 20


def _who(dice: random.Random) -> dict[str, str]:
    return {"agent_id": f"load-agent-{dice.randrange(AGENTS):03}", "user_id": f"load-user-{dice.randrange(USERS):03}"}


def search(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """One of eight questions to somebody's memories."""
    asked = {"query": dice.choice(QUERIES), "top_k": 5, "alpha": 0.7}
    return "/v1/memories/search", {**_who(dice), **asked}


def create(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """One of fifteen texts, as somebody's memory."""
    kept = {
        "content": dice.choice(TEXTS),
        "importance": round(dice.uniform(0.5, 1.5), 2),
        "memory_type": dice.choice(("episodic", "semantic")),
    }
    return "/v1/memories", {**_who(dice), **kept}


async def seed(url: str) -> None:
    """Store the memories that are there before."""
    bodies = [
        json.dumps(
            {
                "agent_id": f"load-agent-{agent:03}",
                "user_id": f"load-user-{user:03}",
                "content": text((agent * USERS + user) * EACH + number, 120),
                "memory_type": "episodic",
            }
        ).encode()
        for agent in range(AGENTS)
        for user in range(USERS)
        for number in range(EACH)
    ]
    stored = await closed_loop(url, "/v1/memories", bodies, SEEDING)
    if stored.refused:
        raise RuntimeError(f"{stored.refused} of {len(bodies)} memories were refused: see the command above")


async def user(url: str, number: int, kind: str, began: float, ends: float, done: list[tuple[float, float]]) -> int:
    """One user's requests: when each was sent, and its milliseconds. Returns how many were refused."""
    dice, refused = random.Random(SEED + number), 0
    await asyncio.sleep(number / USERS_A_SECOND)
    http = Http(url, None)
    await http.open()
    while time.perf_counter() < ends:
        path, asked = create(dice) if dice.random() < 0.25 else search(dice)
        body = json.dumps(asked).encode()
        sent = time.perf_counter()
        try:
            await http.post(path, body)
            done.append((sent - began, (time.perf_counter() - sent) * 1000))
        except Refused:
            refused += 1
        pause = dice.uniform(0.1, 0.3) if kind == "pausing" else sent + STEADY_S - time.perf_counter()
        await asyncio.sleep(max(0.0, pause))
    http.close()
    return refused


async def load(url: str, options: argparse.Namespace) -> Load:
    """All users; the requests that were sent when all were there."""
    done: list[tuple[float, float]] = []
    began, ramp = time.perf_counter(), options.users / USERS_A_SECOND
    ends = began + ramp + options.seconds
    kinds = {"both": ("steady", "pausing")}.get(options.kind, (options.kind,))
    users = (user(url, n, kinds[n % len(kinds)], began, ends, done) for n in range(options.users))
    refused = sum(await asyncio.gather(*users))
    return Load([ms for at, ms in done if at >= ramp], refused, options.seconds)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seed, load, and load a server that does nothing."""
    await seed(options.url)
    found = await load(options.url, options)
    with hello() as url:
        least = await load(url, options)
    return {"users": options.users, "kind": options.kind, **found.figures("memex"), "refused": found.refused} | (
        least.figures("hello")
    )


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kind", choices=("steady", "pausing", "both"), default="steady", help="of users")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = await measure(options)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>16}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    uvloop.run(main())
