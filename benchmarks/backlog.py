"""How fast does one worker project beside the API? A backlog is written fast, then its end is waited for.

    python -m benchmarks.backlog [--events 100000] [--mixed] [--url http://127.0.0.1:3111]

Batches of observations are written as fast as the server takes them. The rate is that of the time behind the last
acknowledgement, when nothing but projecting is left to do (embedding waits for it); where the worker kept up, so that
a fifth or less was left, it is that of the whole time.
"""

import argparse
import json
import os
import time
from typing import Any

import uvloop

from benchmarks.corpus import mixed, observation
from benchmarks.driving import Pool, behind, fill, projected

LEFT = 0.2


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, then look until nothing is left."""
    run, pool = f"backlog-{time.time_ns():x}", Pool(options.url, options.secret)
    make = mixed if options.mixed else observation
    events = [make(run, number) for number in range(options.events)]
    began = time.perf_counter()
    await fill(pool, events)
    written_s = time.perf_counter() - began
    left = (await behind(pool))[0]
    since = time.perf_counter()
    await projected(pool)
    ended = time.perf_counter()
    measured = (left, ended - since) if left > LEFT * options.events else (options.events, ended - began)
    return {
        "events": options.events,
        "written_per_s": round(options.events / written_s),
        "left_at_end": left,
        "projected_per_s": round(measured[0] / measured[1]),
        "seconds": round(ended - began, 1),
    }


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--mixed", action="store_true", help="also memories, lessons, slots, actions, uses of tools")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:>16}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    uvloop.run(main())
