"""The processes of one machine: embedded Valkey, a worker, an API. Starts them, restarts what dies, stops them.

Children are in sessions of their own, so Ctrl-C reaches only the supervisor, which then stops writers before readers of
the log and Valkey last: nothing acknowledged is lost.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import httpx
from msgspec.structs import replace

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
                start_new_session=True,
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

    def __init__(self, settings: Settings) -> None:
        self.valkey = None if settings.redis_url else EmbeddedValkey(settings.data_dir / "valkey")
        if self.valkey is not None:
            settings = _with_redis_url(settings, self.valkey.url)
        self.settings = settings
        self.worker = Child("worker", settings, WORKER_NICENESS)
        self.api = Child("api", settings)

    def start(self, timeout_s: float = 120.0, on_wait: Callable[[str], None] = lambda what: None) -> None:
        """Start everything and wait until it is ready; raises ServerStartFailed with the end of the log at fault."""
        _check_port(self.settings.host, self.settings.port)
        if self.valkey is not None:
            on_wait("starting Valkey")
            self.valkey.start()
        self.worker.start()
        self.api.start()
        on_wait("starting worker and API")
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            for child in (self.api, self.worker):
                if child.pid is None or time.monotonic() > deadline:
                    words = child.last_words()
                    self.stop()
                    raise ServerStartFailed(f"the {child.name} process did not start:\n{words}")
            time.sleep(0.05)

    def ready(self) -> bool:
        """True when the API says so."""
        headers = {"Authorization": f"Bearer {self.settings.secret}"} if self.settings.secret else {}
        try:
            answer = httpx.get(f"{local_url(self.settings)}/readyz", headers=headers, timeout=2)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200

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


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServerStartFailed(
                f"port {port} on {host} cannot be had ({error.strerror}); is mnemolog up already? "
                "Set MNEMOLOG_PORT to use another"
            ) from None


def _with_redis_url(settings: Settings, url: str) -> Settings:

    return replace(settings, redis_url=url)
