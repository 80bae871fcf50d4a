"""What goes wrong: processes are killed and paused, Valkey restarts, its file is torn, its disk is slow."""

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from waiting import wait_until

from ingest.log.keys import LEASE_TTL
from ingest.log.position import Position
from tests.chaos.ledger import Ledger
from tests.chaos.stack import Stack

PAUSED_S = LEASE_TTL.total_seconds() + 2
"""Past the lease, so that another worker has taken the partitions when it goes on."""
SLOW_FOR_S, STALL_S = 3.0, (0.05, 0.4)
TAIL_BYTES = 8 << 20
TORN_COMMAND = b"*3\r\n$3\r\nSET\r\n$8\r\nhalf-wri"
WAIT_FOR_S = 20.0


class Faults:
    """Does to a stack what a fixed seed says; counts what it did."""

    def __init__(self, stack: Stack, ledger: Ledger, seed: int) -> None:
        self._stack, self._ledger, self._random = stack, ledger, random.Random(seed)
        self.done: Counter[str] = Counter()
        self._pauses: set[asyncio.Task[None]] = set()
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill api": lambda: self._kill("api"),
            "kill worker": lambda: self._kill("worker"),
            "kill worker-2": lambda: self._kill("worker-2"),
            "kill valkey": lambda: self._kill("valkey"),
            "restart valkey": lambda: self._signal("valkey", signal.SIGTERM),
            "tear the file": self._tear,
            "pause a worker": self._pause,
            "slow disk": self._slow_disk,
        }

    async def run(self, seconds: float, every_s: float) -> None:
        """One fault after the other, evenly over the time, in an order that has each kind equally often."""
        rounds = max(2, round(seconds / every_s / len(self.kinds)))
        order = [kind for _ in range(rounds) for kind in self._random.sample(list(self.kinds), len(self.kinds))]
        step, began = seconds / len(order), time.monotonic()
        for n, kind in enumerate(order):
            await asyncio.sleep(max(0.0, began + (n + self._random.uniform(0.1, 0.9)) * step - time.monotonic()))
            await self.kinds[kind]()
            self.done[kind] += 1
        await asyncio.gather(*self._pauses)

    async def _pid(self, name: str) -> int:
        """Its process id, as soon as it is up: it may still be down from the last time."""
        until = time.monotonic() + WAIT_FOR_S
        while (pid := self._stack.pid(name)) is None:
            if time.monotonic() > until:
                raise AssertionError(f"{name} does not come back")
            await asyncio.sleep(0.02)
        return pid

    async def _signal(self, name: str, number: signal.Signals) -> None:
        os.kill(await self._pid(name), number)

    async def _kill(self, name: str) -> None:
        await self._signal(name, signal.SIGKILL)

    async def _pause(self) -> None:
        """A worker that does not notice that its lease runs out, and goes on later; other faults go on beside it."""
        name = self._random.choice(("worker", "worker-2"))
        pid = await self._pid(name)
        os.kill(pid, signal.SIGSTOP)

        async def go_on() -> None:
            await asyncio.sleep(PAUSED_S)
            if self._stack.pid(name) == pid:  # or it was killed meanwhile
                os.kill(pid, signal.SIGCONT)

        self._pauses.add(asyncio.create_task(go_on()))

    async def _slow_disk(self) -> None:
        """Each fsync takes long: with `appendfsync always` the server stands still while a disk is busy."""
        pid, until = await self._pid("valkey"), time.monotonic() + SLOW_FOR_S
        busy, enough = self._stack.settings.data_dir / "busy", threading.Event()
        writing = asyncio.create_task(asyncio.to_thread(_keep_busy, busy, enough))
        try:
            while time.monotonic() < until and self._stack.pid("valkey") == pid:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(self._random.uniform(*STALL_S))
                os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(self._random.uniform(*STALL_S) / 4)
        finally:
            enough.set()
            await writing

    async def _tear(self) -> None:
        """A crash in the middle of a write: the end of the file, behind everything acknowledged, is not there."""
        await asyncio.to_thread(self._stack.hold.acquire)
        try:
            pid = self._stack.pid("valkey")
            if pid is None:
                return
            os.kill(pid, signal.SIGKILL)
            await wait_until(lambda: self._stack.pid("valkey") is None, WAIT_FOR_S)
            before = set(self._ledger.asking)  # what was acknowledged before the crash may be on its way
            await wait_until(lambda: not before & self._ledger.asking, WAIT_FOR_S)
            newest = max(self._stack.append_only_files.glob("*.incr.aof"), key=_number)
            kept = end_of_acknowledged(_tail(newest), list(self._ledger.newest))
            size = newest.stat().st_size
            start = size - min(size, TAIL_BYTES)
            if start + kept < size:
                os.truncate(newest, self._random.randint(start + kept, size - 1))
                self.done["bytes cut off"] += size - newest.stat().st_size
            else:
                with newest.open("ab") as file:
                    file.write(TORN_COMMAND)
        finally:
            self._stack.hold.release()


def end_of_acknowledged(tail: bytes, acknowledged: list[Position]) -> int:
    """Where in the end of an append-only file the last transaction ends that has an acknowledged entry; 0 if none has.

    Entries are written as `XADD <stream> <position> e <payload>` between MULTI and EXEC.
    """
    last = max((tail.rfind(f"\r\n{position}\r\n$1\r\ne\r\n".encode()) for position in acknowledged), default=-1)
    if last < 0:
        return 0
    end = tail.find(b"EXEC\r\n", last)
    return len(tail) if end < 0 else end + len(b"EXEC\r\n")


def _tail(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - TAIL_BYTES))
        return opened.read()


def _number(file: Path) -> int:
    return int(file.name.split(".")[-3])


def _keep_busy(file: Path, enough: threading.Event) -> None:
    block = os.urandom(4 << 20)
    with file.open("wb") as opened:
        while not enough.is_set():
            opened.seek(0)
            opened.write(block)
            opened.flush()
            os.fsync(opened.fileno())
            enough.wait(0.02)
    file.unlink()
