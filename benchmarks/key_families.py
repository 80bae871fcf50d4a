"""What of the memory goes to which keys? Samples MEMORY USAGE by key family, from one server.

    python -m benchmarks.key_families [--redis-url unix:///DATA/valkey/valkey.sock] [--samples 200] [--observations N]

A family is a kind of document, listing, stream or registry; partitions and generations are left out of its name. Of
each, `--samples` keys are measured (whole, `SAMPLES 0`), and multiplied by how many there are. The figure has the key's
name and its entry, but not its slot in the table of keys (some 20 bytes). `--observations` divides by so many as well.
"""

import argparse
import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.platform.connections import Client, connect

_PLACE = re.compile(r"^mnemolog:(?:row:)?\{p\d+\}:(?:g\d+:)?|^(?:row:)?mnemolog:row:\{p\d+\}:g\d+:")


class Family(NamedTuple):
    """One kind of key: how many there are, and the bytes of all of them, estimated."""

    name: str
    keys: int
    bytes: int


def family_of(key: str) -> str:
    """The family of a key: `doc obs`, `row ses`, `list timeline`, `log`, `vec` and so on."""
    rest = _PLACE.sub("", key)
    kind, _, name = rest.partition(":")
    if key.startswith("mnemolog:row:"):
        return f"row {rest.partition('_')[0]}"
    match kind:
        case "doc":
            return f"doc {name.partition('_')[0]}"
        case "list":
            return f"list {name.partition(':')[0]}"
        case "mnemolog":
            return "numbers" if "{numbers}" in name else name.partition(":")[0]
        case _:
            return kind


async def families(redis: Client, samples: int) -> list[Family]:
    """Every family, the biggest first."""
    counts: Counter[str] = Counter()
    chosen: defaultdict[str, list[str]] = defaultdict(list)
    async for raw in redis.scan_iter(match="*", count=2000):
        key = raw.decode(errors="surrogateescape")
        name = family_of(key)
        counts[name] += 1
        if len(chosen[name]) < samples:
            chosen[name].append(key)
    found = [Family(name, counts[name], await _estimate(redis, chosen[name], counts[name])) for name in counts]
    return sorted(found, key=lambda one: -one.bytes)


async def _estimate(redis: Client, keys: Sequence[str], count: int) -> int:
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.execute_command("MEMORY", "USAGE", key, "SAMPLES", 0)
        answers: list[Any] = await pipe.execute()
    sizes = [int(size) for size in answers if size is not None]
    return round(sum(sizes) / len(sizes) * count) if sizes else 0


def show(found: Sequence[Family], observations: int = 0) -> None:
    """Print a table."""
    print(f"{'family':<24}{'keys':>10}{'bytes':>14}" + (f"{'per observation':>18}" if observations else ""))
    for one in found:
        share = f"{one.bytes / observations:>18.1f}" if observations else ""
        print(f"{one.name:<24}{one.keys:>10,}{one.bytes:>14,}{share}")
    print(f"{'all':<24}{sum(one.keys for one in found):>10,}{sum(one.bytes for one in found):>14,}")


async def main() -> None:
    """Measure one server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis-url", default="redis://127.0.0.1:6379")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--observations", type=int, default=0, help="divide by so many observations, too")
    chosen = parser.parse_args()
    redis = connect(chosen.redis_url)
    try:
        show(await families(redis, chosen.samples), chosen.observations)
    finally:
        await redis.aclose()


if __name__ == "__main__":
    asyncio.run(main())
