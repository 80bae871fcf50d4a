"""What does a partition cost that nobody writes to?

    python -m benchmarks.partitions [--partitions 16 64 256] [--seconds 60]

Starts `mnemolog up` with an empty log of so many partitions, in a folder that is deleted afterwards, without an
embedder, and lets it stand. Printed of each: seconds until it was ready, and, of API, worker and Valkey, processor time
a second and memory (PSS), then; and how many connections Valkey has.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from benchmarks.stack import Stack

KINDS = ("api", "worker", "valkey")
SETTLED_S = 20.0
"""Index snapshots and what else a start brings are over by then."""


def processor_s(pids: list[int]) -> float:
    """Processor time that processes have taken, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(partitions: int, seconds: float) -> list[Any]:
    """A row of the table."""
    stack = Stack(embedder="none", partitions=str(partitions))
    try:
        ready_s = stack.start()
        time.sleep(SETTLED_S)
        pids = {kind: stack.pids(kind) for kind in KINDS}
        before = {kind: processor_s(pids[kind]) for kind in KINDS}
        time.sleep(seconds)
        used = {kind: (processor_s(pids[kind]) - before[kind]) / seconds for kind in KINDS}
        with redis.Redis(unix_socket_path=stack.redis_url.removeprefix("unix://")) as client:
            clients: Any = client.info("clients")
        row = [partitions, f"{ready_s:.1f} s"]
        row += [f"{100 * used[kind]:.1f} %, {stack.memory(kind) / 2**20:.0f} MiB" for kind in KINDS]
        return [*row, clients["connected_clients"]]
    finally:
        stack.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    table = Table("partitions", "ready after", *KINDS, "connections", title="processor time and memory of an idle log")
    for partitions in options.partitions:
        table.add_row(*map(str, measured(partitions, options.seconds)))
    Console().print(table)


if __name__ == "__main__":
    main()
