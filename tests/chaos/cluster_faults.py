"""Parts of a cluster are killed and stopped under load: how long is who without an answer, and is anything lost?

    python -m tests.chaos.cluster_faults [--events 20000] [--within 1.0] [--only NAME...] [--json FILE]

On one machine, in folders and on ports of its own (`tools/cluster.py`). A table says of each fault how long those
waited whose answer is on what still runs, how long the others ("hit"), and what of the acknowledged events the log
lacks. It exits with 1 when a promise is broken: something acknowledged is lost that no failover may lose, or is there
twice; a projection is not what a replay makes of the log; an answer is neither good nor a refusal with 429 or 503; or
somebody who needed nothing of what had failed waited for longer than `--within` seconds.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table

from benchmarks.corpus import mixed
from benchmarks.driving import Pool, fill, projected, settled, until
from ingest.log.keys import LEASE_TTL, MANIFEST, WORKERS, PartitionKeys
from ingest.log.redis_log import RedisLog
from ingest.platform.cluster.routing import slot_of
from ingest.platform.connections import Client, connect
from ingest.platform.settings import Settings
from tests.chaos.probing import (
    READ_BACK,
    WRITES,
    Ledger,
    Probe,
    Window,
    asking,
    longest_wait,
    probes,
    within,
)
from tests.support.ports import free_port, free_ports
from tests.support.replay_compare import assert_equals_replay, read_log
from tools.cluster import APIS, NODES, LocalCluster, Ports
from tools.valkey_nodes import Process

QUIET_S = 5.0
"""Without a fault, for comparison."""
PAUSED_S = LEASE_TTL.total_seconds() + 3
WHOLE_WITHIN_S = 90.0
REFUSALS = {429, 503}


class Damage(NamedTuple):
    """What a fault takes away: requests that need it may wait or be refused meanwhile."""

    partitions: frozenset[int] = frozenset()
    api: int | None = None
    projecting: bool = False
    """Whatever was just written is read only later."""
    loses: bool = False
    """A replica takes the place of a primary, and may lack what was not acknowledged as replicated."""

    def hits(self, probe: Probe) -> bool:
        """Whether a probe asks for what was taken away."""
        late = self.projecting and probe.kind == READ_BACK
        return late or probe.api == self.api or probe.partition in self.partitions


class Fault(NamedTuple):
    """What was done, when, and what it took away."""

    name: str
    window: Window
    damage: Damage
    notes: Sequence[str]


class Faults:
    """Does one thing after the other to a cluster."""

    def __init__(self, cluster: LocalCluster, all_probes: Sequence[Probe]) -> None:
        self._cluster, self._probes = cluster, all_probes
        self.done: list[Fault] = []

    async def run(self, names: Iterable[str]) -> None:
        """Each of these, and wait until everything is as before."""
        loop = asyncio.get_running_loop()
        for name in names:
            began = loop.time()
            damage, notes = await KINDS[name](self)
            await self._healed()
            self.done.append(Fault(name, Window(began, loop.time()), damage, notes))
            await asyncio.sleep(1)

    async def nothing(self) -> tuple[Damage, list[str]]:
        """For comparison."""
        await asyncio.sleep(QUIET_S)
        return Damage(), []

    async def kill_primary(self) -> tuple[Damage, list[str]]:
        """That of the manifest; it comes back as a replica."""
        victim, damage = await self._primary(MANIFEST)
        began = asyncio.get_running_loop().time()
        victim.kill()
        notes = [await self._replaced(victim, began)]
        victim.launch()
        return damage, notes

    async def stop_primary(self) -> tuple[Damage, list[str]]:
        """That of the list of workers; it goes on when it was replaced."""
        victim, damage = await self._primary(WORKERS)
        began = asyncio.get_running_loop().time()
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGSTOP)
        try:
            notes = [await self._replaced(victim, began)]
        finally:
            os.kill(victim.pid, signal.SIGCONT)
        return damage, notes

    async def kill_worker(self) -> tuple[Damage, list[str]]:
        """It is started again."""
        _signal(self._cluster.workers[0].pid, signal.SIGKILL)
        await asyncio.sleep(PAUSED_S)
        return Damage(projecting=True), []

    async def stop_worker(self) -> tuple[Damage, list[str]]:
        """It goes on when its leases have run out."""
        pid = self._cluster.workers[-1].pid
        _signal(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(PAUSED_S)
        finally:
            _signal(pid, signal.SIGCONT)
        await asyncio.sleep(PAUSED_S)
        return Damage(projecting=True), []

    async def kill_api(self) -> tuple[Damage, list[str]]:
        """It is started again."""
        loop, number = asyncio.get_running_loop(), 1
        _signal(self._cluster.apis[number].pid, signal.SIGKILL)
        began = loop.time()
        await asyncio.sleep(1)
        await until(lambda: asyncio.to_thread(self._cluster.is_ready, number), 0.1, WHOLE_WITHIN_S)
        return Damage(api=number), [f"ready again after {loop.time() - began:.1f} s"]

    async def migrate(self) -> tuple[Damage, list[str]]:
        """The slots of half of a primary's partitions go to another one."""
        loop, key = asyncio.get_running_loop(), PartitionKeys(0).log
        giver, given = await self._primary(key)
        taker, _ = await self._primary(PartitionKeys(min({*self._partitions()} - given.partitions)).log)
        slots = sorted(slot_of(PartitionKeys(partition).log) for partition in given.partitions)
        moving = dict.fromkeys([*slots[: len(slots) // 2], slot_of(key)])
        words = [word for slot in moving for word in ("SLOTSRANGE", slot, slot, "NODE", _name(taker))]
        began = loop.time()
        giver.ask("CLUSTER", "MIGRATESLOTS", *words)

        async def moved() -> bool:
            return (await self._primary(key))[0] is taker

        await until(moved, 0.05, WHOLE_WITHIN_S)
        return Damage(), [f"{len(moving)} partitions moved within {loop.time() - began:.1f} s"]

    def _partitions(self) -> range:
        return range(self._cluster.settings.partitions)

    async def _primary(self, key: str) -> tuple[Process, Damage]:
        """The primary of a key, and what goes when it fails."""

        def look() -> tuple[Process, Damage]:
            nodes = self._cluster.nodes
            victim = nodes.primary_of_key(key)
            lost = frozenset(partition for partition in self._partitions() if nodes.primary_of(partition) is victim)
            return victim, Damage(lost, loses=True)

        return await asyncio.to_thread(look)

    async def _replaced(self, victim: Process, began: float) -> str:
        """Return when no slot is a primary's that has failed."""
        others = [node for node in self._cluster.nodes.nodes if node is not victim]

        def replaced() -> bool:
            ranges: list[list[Any]] = others[0].ask("CLUSTER", "SLOTS")
            return victim.port not in {one[2][1] for one in ranges}

        await until(lambda: asyncio.to_thread(replaced), 0.05, WHOLE_WITHIN_S)
        return f"replaced after {asyncio.get_running_loop().time() - began:.1f} s"

    async def _healed(self) -> None:
        """Return when every node and API process serves, and each probe was answered again what it had asked for."""
        since, waiting = asyncio.get_running_loop().time(), list[Probe]()

        async def healed() -> bool:
            waiting[:] = [
                probe for probe in self._probes if not any(one.good and one.began > since for one in probe.asked[-20:])
            ]
            return not waiting and await asyncio.to_thread(self._whole)

        try:
            await until(healed, 0.2, WHOLE_WITHIN_S)
        except TimeoutError:
            raise AssertionError(f"not as before within {WHOLE_WITHIN_S:g} s; still waiting: {waiting}") from None

    def _whole(self) -> bool:
        try:
            return self._cluster.nodes.is_whole() and all(map(self._cluster.is_ready, range(len(self._cluster.apis))))
        except RedisError:  # a node that does not answer yet
            return False


KINDS: Mapping[str, Callable[[Faults], Awaitable[tuple[Damage, list[str]]]]] = {
    "none": Faults.nothing,
    "primary killed": Faults.kill_primary,
    "primary stopped": Faults.stop_primary,
    "worker killed": Faults.kill_worker,
    "worker stopped": Faults.stop_worker,
    "API killed": Faults.kill_api,
    "slots migrated": Faults.migrate,
}


def _name(node: Process) -> str:
    return node.ask("CLUSTER", "MYID").decode()


def _signal(pid: int | None, number: signal.Signals) -> None:
    assert pid is not None, "it is not up"
    os.kill(pid, number)


class Row(NamedTuple):
    """What a fault did, in seconds and events."""

    fault: str
    reads: float
    """The longest wait of those who read what still runs, and below of those who write."""
    writes: float
    hit_reads: float | None
    hit_writes: float | None
    answer: float
    """The longest time until any answer, also of who was hit, and below the median of all."""
    median: float
    lost: int
    doubled: int
    notes: Sequence[str]
    by_kind: Mapping[str, tuple[float, float]]
    """The longest waits by kind of request: of those that were not hit, and of those that were."""
    statuses: Mapping[int, int]


def row_of(fault: Fault, all_probes: Sequence[Probe], lost: int, doubled: int) -> Row:
    """The figures of one fault."""
    waits: dict[bool, dict[str, float]] = {True: {}, False: {}}
    statuses = Counter[int]()
    for probe in all_probes:
        hit = fault.damage.hits(probe)
        longest = longest_wait(probe.asked, fault.window)
        waits[hit][probe.kind] = max(waits[hit].get(probe.kind, 0.0), longest)
        statuses.update(one.status for one in probe.asked if fault.window.began < one.ended <= fault.window.ended)

    def of(hit: bool, writes: bool) -> float | None:
        return max((wait for kind, wait in waits[hit].items() if (kind in WRITES) is writes), default=None)

    times = [one.ended - one.began for probe in all_probes for one in within(probe.asked, fault.window)]
    kinds = dict.fromkeys(probe.kind for probe in all_probes)
    by_kind = {kind: (waits[False].get(kind, 0.0), waits[True].get(kind, 0.0)) for kind in kinds}
    return Row(
        fault.name, of(False, False) or 0.0, of(False, True) or 0.0, of(True, False), of(True, True), max(times),
        median(times), lost, doubled, fault.notes, by_kind, statuses,
    )  # fmt: skip


class Outcome(NamedTuple):
    """All that came of a run."""

    rows: Sequence[Row]
    broken: Sequence[str]
    """What was promised and did not hold, but for times."""
    acknowledged: int


async def play(cluster: LocalCluster, names: Iterable[str], events: int) -> Outcome:
    """Fill the log, load the cluster, do all that, and compare everything."""
    ledger, partitions = Ledger(), cluster.settings.partitions
    pool = Pool(cluster.urls[0])
    await fill(pool, (mixed("filled", number) for number in range(events)))
    await settled(pool)
    places = {id(cluster.nodes.primary_of(one)): one for one in range(partitions)}.values()
    all_probes = probes(cluster.urls, sorted(places), ledger, partitions)
    faults = Faults(cluster, all_probes)
    async with _watched(cluster), asking(all_probes):
        await faults.run(names)
    redis = connect(cluster.settings.redis_url or "")
    try:
        log = RedisLog(redis, partitions)
        await projected(pool)
        pool.close()
        stored = await _stored(log)
        differing = await _differing(redis, log)
    finally:
        await redis.aclose()
    rows = [row_of(fault, all_probes, *_missing(fault, ledger, stored)) for fault in faults.done]
    broken = [*differing, *await _rebuilt(cluster), *_broken(faults.done, rows, ledger, stored)]
    return Outcome(rows, broken, len(ledger.acknowledged))


@asynccontextmanager
async def _watched(cluster: LocalCluster) -> AsyncGenerator[None]:
    """What ends is started again meanwhile, in this thread: a child ends with the thread that started it."""

    async def watch() -> None:
        while True:
            cluster.watch()
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _stored(log: RedisLog) -> Counter[str]:
    """How often each event id is in the log."""
    found = Counter[str]()
    for partition in range(log.partitions):
        found.update(one.envelope.event_id for one in await read_log(log, partition))
    return found


async def _differing(redis: Client, log: RedisLog) -> list[str]:
    try:
        await assert_equals_replay(redis, log, log.partitions)
    except AssertionError as error:
        return [f"live is not what a replay is: {error}"]
    return []


async def _rebuilt(cluster: LocalCluster) -> list[str]:
    """What a rebuild that switches only to what answers alike says of it."""
    async with httpx.AsyncClient(base_url=cluster.urls[0], timeout=60, trust_env=False) as client:
        name = (await client.post("/v1/admin/rebuilds", json={"switch": "auto"})).json()["id"]
        last: dict[str, Any] = {}

        async def ended() -> bool:
            nonlocal last
            last = (await client.get(f"/v1/admin/rebuilds/{name}")).json()
            return last.get("state") in ("switched", "ready", "failed", "cancelled")

        await until(ended, 0.5, 300)
    return [] if last["state"] == "switched" else [f"a rebuild is not switched to: {last}"]


def _missing(fault: Fault, ledger: Ledger, stored: Mapping[str, int]) -> tuple[int, int]:
    """How many events that were acknowledged shortly before or meanwhile are not in the log, and are there twice."""
    ids = [name for name, (at, _) in ledger.acknowledged.items() if fault.window.began - 1 < at <= fault.window.ended]
    return sum(name not in stored for name in ids), sum(stored.get(name, 0) > 1 for name in ids)


def _broken(faults: Sequence[Fault], rows: Sequence[Row], ledger: Ledger, stored: Mapping[str, int]) -> list[str]:
    """Promises about events and answers that were broken."""
    doubled = [name for name, times in stored.items() if times > 1]
    replicated = [
        name for name, (_, level) in ledger.acknowledged.items() if level == "replicated" and name not in stored
    ]
    found = [f"in the log twice: {doubled[:5]}"] if doubled else []
    found += [f"lost though replicated: {replicated[:5]}"] if replicated else []
    for fault, row in zip(faults, rows, strict=True):
        if row.lost and not fault.damage.loses:
            found.append(f"{fault.name}: {row.lost} acknowledged events are lost")
        odd = {status for status in row.statuses if status // 100 != 2} - REFUSALS
        if fault.damage.api is not None:
            odd.discard(0)
        if odd:
            found.append(f"{fault.name}: answered with {sorted(odd)}")
    return found


def too_long(rows: Sequence[Row], limit_s: float) -> list[str]:
    """Who waited too long though nothing was taken from them."""
    return [
        f"{row.fault}: {kind} waited {wait:.2f} s"
        for row in rows
        for kind, (wait, _) in row.by_kind.items()
        if wait > limit_s
    ]


def tables(outcome: Outcome) -> list[Table]:
    """The rows for people: one table of faults, one of kinds of requests."""
    table = Table(
        "fault", "reads", "writes", "hit: reads", "hit: writes", "any answer", "median", "lost", "twice", "", box=None
    )
    kinds = Table("longest wait, s (hit)", *(row.fault for row in outcome.rows), box=None)
    for row in outcome.rows:
        times = [
            _seconds(one) for one in (row.reads, row.writes, row.hit_reads, row.hit_writes, row.answer, row.median)
        ]
        table.add_row(row.fault, *times, str(row.lost), str(row.doubled), "; ".join(row.notes))
    for kind in outcome.rows[0].by_kind:
        waits = [row.by_kind[kind] for row in outcome.rows]
        kinds.add_row(kind, *(f"{wait:.2f}" + (f" ({hit:.2f})" if hit else "") for wait, hit in waits))
    return [table, kinds]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def made(folder: Path, **changes: Any) -> LocalCluster:
    """A cluster on free ports, with its data in a folder; not started."""
    settings = Settings(data_dir=folder, cache_dir=folder / "cache", embedder="none", spool=folder / "spool", **changes)
    return LocalCluster(settings, Ports(free_ports(APIS), free_port(), free_ports(2 * NODES), free_port()))


def main() -> None:
    """Run it, print the tables; exit with 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000, help="that are in the log before")
    parser.add_argument("--within", type=float, default=1.0, help="seconds that nobody may wait who was not hit")
    parser.add_argument("--only", nargs="+", choices=KINDS, help="some faults")
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="kept afterwards, with all logs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mnemolog-faults-") as temporary:
        cluster = made(given.folder or Path(temporary), partitions=given.partitions)
        names = given.only or list(KINDS)
        cluster.start()
        try:
            outcome = asyncio.run(play(cluster, names, given.events))
        finally:
            cluster.stop()
    broken = [*outcome.broken, *too_long(outcome.rows, given.within)]
    console = Console(width=200)
    for table in tables(outcome):
        console.print(table, "")
    console.print(f"{outcome.acknowledged:,} events acknowledged to the probes; load {os.getloadavg()[0]:.1f}")
    for line in broken:
        console.print(f"broken: {line}", markup=False)
    if given.json:
        given.json.write_text(json.dumps({"rows": [row._asdict() for row in outcome.rows], "broken": broken}, indent=1))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
