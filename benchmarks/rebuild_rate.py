"""How many events a second does a rebuild take? Documents and index, all partitions, beside nothing else.

    python -m benchmarks.rebuild_rate --redis-url unix:///DATA/valkey/valkey.sock [--events 500000] [--api-log FILE]

A fleet's mixed load is written and projected, then a rebuild of everything is ordered; it is timed from the order
until readers were switched to it, and with `--api-log`, the log of the one API process at level info, until its index
was compared with the new documents of every partition. Beside it: reading the same log raw, XRANGE of 1,000 entries
at a time, one partition after the other. The server should run without an embedder (`MNEMOLOG_EMBEDDER=none`), or
embedding works beside the rebuild.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.corpus import mixed
from benchmarks.driving import Pool, fill, partitions, settled, until
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import connect

PAGE = 1_000
COMPARED = " was compared with "
OVER = ("switched", "failed", "cancelled", "rolled_back")


async def rebuilt(pool: Pool) -> tuple[int, float]:
    """Order a rebuild and wait for it; entries of the log that it applied, and the seconds."""
    began = time.perf_counter()
    order = await pool.post("/v1/admin/rebuilds", {})
    found: dict[str, Any] = {}

    async def over() -> bool:
        found.update(await pool.get(f"/v1/admin/rebuilds/{order['id']}"))
        return found["state"] in OVER

    await until(over, 0.1)
    if found["state"] != "switched":
        raise RuntimeError(f"the rebuild is {found['state']}: {found['why']}")
    return found["done"], time.perf_counter() - began


def compared(api_log: Path) -> int:
    """How often the API process has compared a partition with its documents, as its log says."""
    return api_log.read_text(errors="replace").count(COMPARED)


async def read_raw(redis_url: str, count: int) -> tuple[int, float]:
    """Read the logs of so many partitions; entries and seconds."""
    redis = connect(redis_url)
    began, read = time.perf_counter(), 0
    for partition in range(count):
        start = "-"
        while rows := await redis.xrange(PartitionKeys(partition).log, min=start, count=PAGE):
            read += len(rows)
            start = b"(" + rows[-1][0]
    await redis.aclose()
    return read, time.perf_counter() - began


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, project, rebuild, read."""
    run, pool = f"rebuild-{time.time_ns():x}", Pool(options.url, options.secret)
    await fill(pool, (mixed(run, number) for number in range(options.events)))
    await settled(pool)
    count = len(await partitions(pool))
    before = compared(options.api_log) if options.api_log else 0
    began = time.perf_counter()
    events, seconds = await rebuilt(pool)
    figures = {"events": events, "seconds": round(seconds, 1), "rebuilt_per_s": round(events / seconds)}
    if options.api_log:

        async def all_compared() -> bool:
            return compared(options.api_log) >= before + count

        await until(all_compared, 0.1)
        figures["with_index_per_s"] = round(events / (time.perf_counter() - began))
    read, read_s = await read_raw(options.redis_url, count)
    return {**figures, "raw_read_per_s": round(read / read_s)}


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--api-log", type=Path, help="as above")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>16}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    uvloop.run(main())
