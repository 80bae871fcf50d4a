"""Starts, restarts and stops the processes of one machine: embedded Valkey, workers, an API.

Children have their own process groups, so Ctrl-C reaches only the supervisor. It stops the API first, then workers, and
Valkey last, so that no acknowledged write is lost.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from msgspec import DecodeError, json
from msgspec.structs import replace

from api.access.binding import check_before_start
from api.cli.forks import Fork
from api.dialects.registry import ports_of
from api.http.sockets import bind
from ingest.embedded.room import EmbeddedValkey
from ingest.errors import ServerStartFailed
from ingest.log.keys import MANIFEST
from ingest.platform.connections import connected
from ingest.platform.files import private_folder
from ingest.platform.locking import Lock
from ingest.platform.processes import GATE, GO, prepare_child, reason_in
from ingest.platform.settings import Settings, to_environment, without_other_names

logger = logging.getLogger(__name__)

COMMAND = "mnemolog up"
WORKER_NICENESS = 10
"""On a small machine, requests go before projecting."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
"""Before a dead child is restarted; doubles while it keeps dying within STEADY_S."""
READY_EVERY_S = 0.05
STEADY_S = 60.0
TRIES = 4
"""Starting fails after a child has died this often: transient errors have passed by then."""


class Child:
    """One process that is kept alive."""

    def __init__(self, name: str, settings: Settings, niceness: int = 0, number: int = 1) -> None:
        """`number` distinguishes the logs of children with one name."""
        self.name, self._settings, self._niceness = name, settings, niceness
        self.command: Sequence[str] = [sys.executable, "-P", "-m", "api.cli.main", name]
        """The program that is started, with its arguments."""
        self.log = settings.data_dir / "logs" / (f"{name}.log" if number == 1 else f"{name}-{number}.log")
        self.deaths = 0
        """How often it died since it last ran for STEADY_S."""
        self._locks: tuple[int, ...] = ()
        self._process: subprocess.Popen[bytes] | Fork | None = None
        self._started_at, self._counted = 0.0, False
        self._log_begin, self._pause_s = 0, FIRST_PAUSE_S

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, *, gated: bool = False) -> None:
        """Start it; its output is appended to `log`. Raises ServerStartFailed if that is not writable.

        With `gated` it loads its modules, and then waits for `open_gate`.
        """
        self._process = self._spawn(gated=gated)
        self._log_begin = self.log.stat().st_size if self.log.exists() else 0
        self._started_at, self._counted = time.monotonic(), False

    def _spawn(self, *, gated: bool) -> "subprocess.Popen[bytes] | Fork":
        gate = {GATE: "1"} if gated else {}
        environment = {**without_other_names(os.environ), **to_environment(self._settings), **gate}
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            output = self.log.open("ab")
        except OSError as error:
            reason = f"{error.filename} is not writable: {error.strerror}"
            raise ServerStartFailed(f"{reason}; set MNEMOLOG_DATA_DIR to a writable folder") from None
        with output:
            return subprocess.Popen(
                self.command,
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.PIPE if gated else subprocess.DEVNULL,
                process_group=0,
                preexec_fn=prepare_child(self._niceness),
                pass_fds=self._locks,
            )

    def open_gate(self) -> None:
        """Let it continue, if it waits at the gate."""
        _write_to_gate(self._process, GO)

    def hold(self, locks: Iterable[int | None]) -> None:
        """Share these locks with it whenever it is started, so that they are held while it runs."""
        self._locks = tuple(lock for lock in locks if lock is not None)

    def died(self) -> bool:
        """Whether it has ended since it was started; see `deaths` and `reason`."""
        if self._process is None or self._process.poll() is None:
            return False
        if not self._counted:
            self._counted = True
            if time.monotonic() - self._started_at > STEADY_S:
                self.deaths, self._pause_s = 0, FIRST_PAUSE_S
            self.deaths += 1
            logger.warning("%s ended with status %s: %s", self.name, self._process.returncode, self.reason())
        return True

    def restart_if_dead(self) -> bool:
        """Restart it if it died and its pause is over; true if it was dead."""
        if not self.died():
            return False
        if time.monotonic() - self._started_at >= self._pause_s:
            logger.warning("restarting %s", self.name)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self.start()
        return True

    def ask_to_stop(self) -> None:
        """Ask it to finish its work."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, timeout_s: float = 20.0) -> None:
        """Ask it to finish its work; kill it after `timeout_s`."""
        if self._process is None:
            return
        self.ask_to_stop()
        if self._process.poll() is None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                logger.warning("%s did not stop within %.0f s and was killed", self.name, timeout_s)
                self._process.kill()
        self._process.wait()
        _write_to_gate(self._process, b"")
        self._process = None

    def reason(self) -> str:
        """Why it ended: one line from its log since it was last started."""
        return reason_in(self.log, self._log_begin)


class Supervisor:
    """All processes that `mnemolog up` starts."""

    def __init__(self, settings: Settings, worker_niceness: int = WORKER_NICENESS) -> None:
        folder = settings.data_dir / "valkey"
        self.valkey = None if settings.redis_url else EmbeddedValkey(folder, COMMAND, lasting=True)
        if self.valkey is not None:
            settings = replace(settings, redis_url=self.valkey.url)
        self.settings = settings
        self.notice = ""
        """A warning about access, set once it has started."""
        self.waits_for = ""
        """The index's progress at the last check, if the API waits for it."""
        self.worker = Child("worker", settings, worker_niceness)
        self.further_workers = [
            Child("worker", settings, worker_niceness, number) for number in range(2, settings.workers + 1)
        ]
        """They share the partitions with the first one; startup does not wait for them."""
        self.api = Child("api", settings)
        self._ports: list[Lock] = []

    @property
    def trouble(self) -> str:
        """A warning about the log, set once it has started: lost acknowledged events."""
        damage = self.valkey.damage if self.valkey is not None else None
        return str(damage) if damage is not None and damage.open else ""

    def start(self, timeout_s: float = 120.0, on_wait: Callable[[str], None] = lambda what: None) -> None:
        """Start everything and wait until it is ready; raises a MnemologError that says what went wrong.

        A child that dies is restarted, up to TRIES times. Starting fails after `timeout_s` without progress; an index
        that makes progress has no time limit. After an error no process runs, and nothing that another `up` uses was
        touched.
        """
        if self.settings.llm:
            from projections.condensing.llm.assistant import check

            check(self.settings.llm, self.settings.llm_key or "", self.settings.llm_daily_tokens)
        try:
            self._start(timeout_s, on_wait)
        except BaseException:  # including KeyboardInterrupt: leave no process behind
            self.stop()
            raise

    def _start(self, timeout_s: float, on_wait: Callable[[str], None]) -> None:
        if self.valkey is not None:
            self.valkey.lock(on_wait)
        self._take_ports(on_wait)
        locks = [self.valkey.lock_fd if self.valkey is not None else None, *(port.fd for port in self._ports)]
        for child in (self.api, self.worker):  # loading takes longer than the steps before the gate opens
            child.hold(locks)
            child.start(gated=True)
        if self.valkey is not None:
            on_wait("starting Valkey")
            self.valkey.start()
        self._prepare(on_wait)
        for child in (self.api, self.worker):
            child.open_gate()
        on_wait("starting worker and API")
        deadline, progress = time.monotonic() + timeout_s, ""
        while self.api.pid is None or not self.ready():
            if self.waits_for not in ("", progress):
                progress = self.waits_for
                deadline = time.monotonic() + timeout_s
                on_wait(progress)
            for child in (self.api, self.worker):
                if child.died() and child.deaths >= TRIES:
                    self._check_ports()
                    raise ServerStartFailed(
                        f"the {child.name} does not start: {child.reason()} (all of it: {child.log})"
                    )
                child.restart_if_dead()
                if time.monotonic() > deadline:
                    raise ServerStartFailed(f"not ready within {timeout_s:.0f} s: {child.reason()} (see {child.log})")
            time.sleep(READY_EVERY_S)
        for child in self.further_workers:  # only now: they would compete with the processes that startup waits for
            child.hold(locks)
            child.start()

    def _prepare(self, on_wait: Callable[[str], None]) -> None:
        """Restore an empty log if configured, check Redis and access.

        Raises RedisError if Redis does not answer.
        """
        if self.settings.backup_target:
            from api.cli.backup import restore_at_start  # 20 MB

            if restore_at_start(self.settings, on_wait) and self.valkey is not None:
                self.valkey.compare_again()

        async def check_log() -> str:
            async with connected(self.settings.redis_url or "") as redis:
                await redis.exists(MANIFEST)
            return await check_before_start(self.settings)

        with ThreadPoolExecutor(1) as thread:  # the caller may run an event loop
            self.notice = thread.submit(asyncio.run, check_log()).result()

    def _take_ports(self, on_wait: Callable[[str], None]) -> None:
        for port, variable in ports_of(self.settings).items():
            lock = Lock(private_folder() / f"port-{port}", f"port {port}", f"set {variable} to another port")
            self._ports.append(lock)
            lock.take(f"{COMMAND} with {self.settings.data_dir}", lasting=True, on_wait=on_wait)
        self._check_ports()

    def _check_ports(self) -> None:
        if self.api.pid is None:
            for port, variable in ports_of(self.settings).items():
                try:
                    for bound in bind(self.settings.host, port):
                        bound.close()
                except ServerStartFailed as error:
                    if "in use" not in str(error):
                        raise
                    message = f"{error}; is mnemolog already running? Set {variable} to use another port"
                    raise ServerStartFailed(message) from None

    def ready(self) -> bool:
        """Whether the API says so, and that a worker is alive.

        An API that requires a key which this process does not have is ready when it asks for it.
        """
        status, body = ask_ready(self.settings)
        if status == 401:
            return not self.settings.secret
        problem: dict[str, str] = body if status == 503 else {}
        self.waits_for = problem["detail"] if problem.get("reason") == "index" else ""
        return status == 200 and all(condition["code"] != "no_worker" for condition in body["degraded"])

    def watch(self) -> None:
        """Restart processes that died since the last call."""
        if self.valkey is not None and self.valkey.pid is None:
            logger.warning("Valkey ended; restarting it")
            try:
                self.valkey.start()
            except ServerStartFailed as error:
                logger.error("Valkey does not start: %s", error)
                time.sleep(1)
        for child in (self.worker, *self.further_workers, self.api):
            child.restart_if_dead()

    def stop(self) -> None:
        """Stop everything: first new writes, then work in progress, then the log."""
        self.api.stop()
        workers = (self.worker, *self.further_workers)
        for child in workers:  # all at once, so that none takes over the partitions of another
            child.ask_to_stop()
        for child in workers:
            child.stop()
        if self.valkey is not None:
            self.valkey.stop()
        for port in self._ports:
            port.release()


def _write_to_gate(process: subprocess.Popen[bytes] | Fork | None, words: bytes) -> None:
    gate = process.stdin if process is not None else None
    if gate is not None and not gate.closed:
        with suppress(BrokenPipeError), gate:
            gate.write(words)


def ask_ready(settings: Settings) -> tuple[int, Any]:
    """Status and body of /readyz, 0 without an answer; without a client library, which is slow to load."""
    url = urlsplit(local_url(settings))
    connection = HTTPConnection(url.hostname or "", url.port, timeout=2)
    try:
        headers = {"Authorization": f"Bearer {settings.secret}"} if settings.secret else {}
        connection.request("GET", "/readyz", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.decode(body) if answer.status in (200, 503) else None
    except (OSError, HTTPException, DecodeError):
        return 0, None
    finally:
        connection.close()


def local_url(settings: Settings) -> str:
    """The API's URL for clients on this machine."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
