"""What does a document cost in memory, how soon is an index of many ready, and how long does a second start take?

    python -m benchmarks.footprint [--documents 100000] [--starts 3]

Starts servers of its own, with an archive, as `mnemolog up` does. Memory is that of the API processes (PSS) and of
Valkey (used_memory behind MEMORY PURGE), before the documents and behind them: when they are projected, the log is
sealed into the archive (`mnemolog archive seal`) and a snapshot of the index is written. Then the stack is stopped and
started again: the time until reads and writes work, with the snapshot. Another stack, of a hundred documents, is
started again, too: that is the second start of `mnemolog up`. Medians of `--starts`.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpus import observation, question
from benchmarks.driving import Pool, behind, fill, settled, until
from benchmarks.stack import Stack
from ingest.platform.connections import connect

FEW = 100
ASKED = 20
SNAPSHOT_WITHIN_S = 600.0
SETTLE_S = 3.0
"""Behind the last change, before memory is read: the heaps are trimmed meanwhile."""


async def load(stack: Stack, first: int, count: int) -> int:
    """Write documents, wait, ask a little, so that what is loaded once is there; those without a contextual vector."""
    pool = Pool(stack.url)
    await fill(pool, (observation("cost", first + number) for number in range(count)))
    await settled(pool)
    for number in range(ASKED):
        await pool.post("/v1/recall", {"query": question(number), "project": "cost-0"})
    return (await behind(pool))[1]


async def snapshot(stack: Stack) -> None:
    """Order a snapshot of the index and wait until it is there."""
    folder = stack.folder / "data/snapshots"
    before = _names(folder)

    async def queued() -> bool:
        return (await Pool(stack.url).post("/v1/admin/snapshots", {}))["queued"]

    async def written() -> bool:
        return bool(_names(folder) - before)

    await until(queued, within_s=SNAPSHOT_WITHIN_S)
    await until(written, within_s=SNAPSHOT_WITHIN_S)


def _names(folder: Path) -> set[str]:
    """Snapshots that are whole: one is written beside, and renamed."""
    return {path.parent.name for path in folder.glob("*/manifest.json")} if folder.exists() else set()


def seal(stack: Stack) -> None:
    """Move all of the log that is projected into the archive."""
    command = [sys.executable, "-m", "api.cli.main", "archive", "seal"]
    subprocess.run(command, env=stack.environment, check=True, stdout=subprocess.DEVNULL)


async def memory(stack: Stack) -> tuple[int, int]:
    """Bytes of the API processes and of Valkey."""
    await asyncio.sleep(SETTLE_S)
    redis = connect(stack.redis_url)
    async with redis.pipeline(transaction=False) as pipe:
        pipe.execute_command("MEMORY", "PURGE")
        await pipe.execute()
    used = (await redis.info("memory"))["used_memory"]
    await redis.aclose()
    return stack.memory("api"), used


def again(stack: Stack, times: int) -> float:
    """Stop it and start it again; the median of the seconds until it works."""
    taken: list[float] = []
    for _ in range(times):
        stack.stop()
        taken.append(stack.start())
    return median(taken)


def measure(documents: int, starts: int) -> dict[str, Any]:
    """Memory, then starts."""
    with Stack() as stack:
        asyncio.run(load(stack, 0, FEW))
        second_start_s = again(stack, starts)
    with Stack(archive="{folder}/archive") as stack:
        asyncio.run(load(stack, 0, FEW))
        api, valkey = asyncio.run(memory(stack))
        waiting = asyncio.run(load(stack, FEW, documents))
        seal(stack)
        asyncio.run(snapshot(stack))
        api_after, valkey_after = asyncio.run(memory(stack))
        start_s = again(stack, starts)
    return {
        "documents": documents,
        "api_bytes": round((api_after - api) / documents),
        "valkey_bytes": round((valkey_after - valkey) / documents),
        "without_vector": waiting,
        "start_with_snapshot_s": round(start_s, 2),
        "second_start_s": round(second_start_s, 2),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.documents, options.starts)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>22}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
