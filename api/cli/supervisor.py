"""The processes of one machine: embedded Valkey, a worker, an API. Starts them, restarts what dies, stops them.

Children are in sessions of their own, so Ctrl-C reaches only the supervisor, which then stops writers before readers of
the log and Valkey last: nothing acknowledged is lost.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
from msgspec.structs import replace

from api.access.binding import check_before_start
from api.cli.backup import restore_at_start
from api.listening import bind, ports_of
from ingest.errors import ServerStartFailed
from ingest.processes import prepare_child
from ingest.settings import Settings, to_environment
from ingest.valkey import EmbeddedValkey

logger = logging.getLogger(__name__)

WORKER_NICENESS = 10
"""Writers and readers come before projecting, on a machine too small for all."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
"""Before a child that died is started again; doubles while it keeps dying within a minute."""


class Child:
    """One process that is kept alive."""

    def __init__(self, name: str, settings: Settings, niceness: int = 0) -> None:
        self.name, self._settings, self._niceness = name, settings, niceness
        self.log = settings.data_dir / "logs" / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._pause_s = FIRST_PAUSE_S

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it; its output is appended to `log`."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **to_environment(self._settings)}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "api.cli.main", self.name],
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=prepare_child(self._niceness),
            )
        self._started_at = time.monotonic()

    def restart_if_dead(self) -> bool:
        """Start it again when it died and its pause is over; true when it was dead."""
        if self._process is None or self._process.poll() is None:
            return False
        if time.monotonic() - self._started_at > 60:
            self._pause_s = FIRST_PAUSE_S
        if time.monotonic() - self._started_at >= self._pause_s:
            logger.warning("%s ended with status %s; starting it again", self.name, self._process.returncode)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self.start()
        return True

    def stop(self, timeout_s: float = 20.0) -> None:
        """Ask it to finish what is at hand; kill it when it does not within `timeout_s`."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                logger.warning("%s did not stop within %.0f s and was killed", self.name, timeout_s)
                self._process.kill()
        self._process.wait()
        self._process = None

    def last_words(self, lines: int = 12) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


class Supervisor:
    """All processes that `mnemolog up` starts."""

    def __init__(self, settings: Settings, worker_niceness: int = WORKER_NICENESS) -> None:
        self.valkey = None if settings.redis_url else EmbeddedValkey(settings.data_dir / "valkey")
        if self.valkey is not None:
            settings = _with_redis_url(settings, self.valkey.url)
        self.settings = settings
        self.notice = ""
        """What is to be known of who gets in, once it has started."""
        self.waits_for = ""
        """How far the index was when the API was asked last, if that was what it waited for."""
        self.worker = Child("worker", settings, worker_niceness)
        self.api = Child("api", settings)

    def start(self, timeout_s: float = 120.0, on_wait: Callable[[str], None] = lambda what: None) -> None:
        """Start everything and wait until it is ready; raises ServerStartFailed with the end of the log at fault.

        That is when a child has died, and when nothing has come of it for `timeout_s`; an index that gets on is waited
        for as long as it takes.
        """
        for port, variable in ports_of(self.settings).items():
            _check_port(self.settings.host, port, variable)
        if self.valkey is not None:
            on_wait("starting Valkey")
            self.valkey.start()
        restore_at_start(self.settings, on_wait)
        try:
            with ThreadPoolExecutor(1) as thread:  # whoever starts it may have an event loop of its own
                self.notice = thread.submit(asyncio.run, check_before_start(self.settings)).result()
        except BaseException:
            self.stop()
            raise
        self.worker.start()
        self.api.start()
        on_wait("starting worker and API")
        deadline, told = time.monotonic() + timeout_s, ""
        while not self.ready():
            if self.waits_for not in ("", told):
                told = self.waits_for
                deadline = time.monotonic() + timeout_s
                on_wait(told)
            for child in (self.api, self.worker):
                if child.pid is None or time.monotonic() > deadline:
                    words = child.last_words()
                    self.stop()
                    raise ServerStartFailed(f"the {child.name} process did not start:\n{words}")
            time.sleep(0.05)

    def ready(self) -> bool:
        """True when the API says so, and that a worker is alive.

        One whose keys this process does not have is ready when it asks for one.
        """
        headers = {"Authorization": f"Bearer {self.settings.secret}"} if self.settings.secret else {}
        try:
            answer = httpx.get(f"{local_url(self.settings)}/readyz", headers=headers, timeout=2)
        except httpx.HTTPError:
            return False
        if answer.status_code == 401:
            return not self.settings.secret
        fault: dict[str, str] = answer.json() if answer.status_code == 503 else {}
        self.waits_for = fault["reason"] if fault.get("code") == "index" else ""
        return answer.status_code == 200 and all(one["code"] != "no_worker" for one in answer.json()["degraded"])

    def watch(self) -> None:
        """Start again what has died since the last call."""
        if self.valkey is not None and self.valkey.pid is None:
            logger.warning("Valkey ended; starting it again")
            try:
                self.valkey.start()
            except ServerStartFailed:
                logger.exception("Valkey does not start")
                time.sleep(1)
        for child in (self.worker, self.api):
            child.restart_if_dead()

    def stop(self) -> None:
        """Stop everything: no new writes, then what is at hand, then the log."""
        self.api.stop()
        self.worker.stop()
        if self.valkey is not None:
            self.valkey.stop()


def local_url(settings: Settings) -> str:
    """Where a client on this machine finds the API."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _check_port(host: str, port: int, variable: str) -> None:
    try:
        for bound in bind(host, port):
            bound.close()
    except ServerStartFailed as error:
        raise ServerStartFailed(f"{error}; is mnemolog up already? Set {variable} to use another port") from None


def _with_redis_url(settings: Settings, url: str) -> Settings:

    return replace(settings, redis_url=url)
