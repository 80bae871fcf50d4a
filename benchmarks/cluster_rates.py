"""What do further workers and API processes bring on a cluster?

    python -m benchmarks.cluster_rates [--events 20000] [--workers 1 2 3] [--apis 1 2]

Starts the cluster of `make cluster` anew for each pair, without a model; the load generator and six Valkeys share the
machine with it. Batches of observations are written through all API processes at once: accepted a second until the
last acknowledgement, and projected a second from the first write until nothing waits.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.corpus import observation
from benchmarks.driving import Pool, fill, projected
from benchmarks.stack import free_ports
from ingest.platform.settings import Settings
from tools.cluster import NODES, LocalCluster, Ports


class Rates(NamedTuple):
    """Events a second, and the load average before."""

    apis: int
    workers: int
    accepted: int
    projected: int
    load: float


async def write_and_project(cluster: LocalCluster, events: int) -> tuple[float, float]:
    """Seconds until all is acknowledged, and until all is projected."""
    pools = [Pool(url) for url in cluster.urls]
    made = [observation("rates", number) for number in range(events)]
    began = time.perf_counter()
    await asyncio.gather(*(fill(pool, made[n :: len(pools)]) for n, pool in enumerate(pools)))
    accepted_s = time.perf_counter() - began
    await projected(pools[0])
    return accepted_s, time.perf_counter() - began


def measure(apis: int, workers: int, events: int) -> Rates:
    """The rates of one cluster."""
    with tempfile.TemporaryDirectory(prefix="mnemolog-rates-") as folder:
        ports = free_ports(apis + 1 + 2 * NODES)
        settings = Settings(
            data_dir=Path(folder), cache_dir=Path(folder), embedder="none", spool=Path(folder) / "spool"
        )
        cluster = LocalCluster(settings, Ports(ports[:apis], ports[apis], ports[apis + 1 :]), workers=workers)
        load = os.getloadavg()[0]
        cluster.start()
        try:
            accepted_s, projected_s = asyncio.run(write_and_project(cluster, events))
        finally:
            cluster.stop()
    return Rates(apis, workers, round(events / accepted_s), round(events / projected_s), round(load, 1))


def main() -> None:
    """Print a row for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--apis", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measure(apis, workers, given.events) for apis in given.apis for workers in given.workers]
    if given.json:
        print(json.dumps([row._asdict() for row in rows]))
        return
    table = Table("API processes", "workers", "accepted/s", "projected/s", "load before")
    for row in rows:
        table.add_row(str(row.apis), str(row.workers), f"{row.accepted:,}", f"{row.projected:,}", f"{row.load:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
