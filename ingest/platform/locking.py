"""A file lock that lasts as long as its holder and the holder's children, and names the holder.

The operating system manages it (`flock`), so a killed process leaves no lock. A child that inherits `fd`
(`subprocess.Popen(pass_fds=...)`) also holds it, so a child that outlives its parent still excludes others.
"""

import fcntl
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from ingest.errors import InUse, ServerStartFailed

WAIT_S = 30.0
"""How long to wait for a holder that will exit soon: a short command, or children of a killed process."""
_LOOK_EVERY_S = 0.05


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds a lock; `lasting` means until somebody stops it."""

    pid: int
    command: str
    lasting: bool = False
    host: str = ""

    @property
    def alive(self) -> bool:
        """Whether a process has this id; what holds the lock of one that has ended are its children."""
        if self.host != socket.gethostname():
            return True  # this machine cannot know
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def __str__(self) -> str:
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        if self.alive:
            return f"`{self.command}` (process {self.pid}{where})"
        return f"processes that `{self.command}` (process {self.pid}{where}) left behind when it was killed"


@dataclass
class Lock:
    """An exclusive lock on `path`, whose folder is made; `what` names in messages what it protects.

    `advice` says what else can be done than to stop the holder.
    """

    path: Path
    _what: str
    _advice: str = ""

    def __post_init__(self) -> None:
        self.fd: int | None = None
        """The open file while the lock is held: for `pass_fds`."""

    def take(
        self, command: str, *, lasting: bool = False, wait_s: float = WAIT_S,
        on_wait: Callable[[str], None] = lambda what: None,
    ) -> None:  # fmt: skip
        """Take it; does nothing when it is held already. Raises InUse, and ServerStartFailed for an unusable folder. A
        lasting holder that is alive is not waited for, any other for `wait_s`."""
        if self.fd is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            advice = f"; {self._advice}" if self._advice else ""
            raise ServerStartFailed(f"{self.path} cannot be written: {error.strerror}{advice}") from None
        deadline = time.monotonic() + wait_s
        try:
            while not self._locked(fd):
                holder = self.holder()
                if (holder is not None and holder.lasting and holder.alive) or time.monotonic() > deadline:
                    advice = f", or {self._advice}" if self._advice else ""
                    raise InUse(f"{self._what} is in use by {holder or 'another process'}: stop that first{advice}")
                on_wait(f"waiting for {holder or 'another process'}")
                time.sleep(_LOOK_EVERY_S)
            holder = Holder(pid=os.getpid(), command=command, lasting=lasting, host=socket.gethostname())
            # written once the lock is held: a file without a lock says who held it before
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(holder), 0)
        except BaseException:  # also KeyboardInterrupt, while it waits
            os.close(fd)
            raise
        self.fd = fd

    def release(self) -> None:
        """Give it up; children that have it keep it until they end. Does nothing when it is not held."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def holder(self) -> Holder | None:
        """Who took it last; None if no process did, or one is just doing so."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Holder)
        except (OSError, msgspec.MsgspecError):
            return None

    def _locked(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ServerStartFailed(f"{self.path} cannot be locked: {error.strerror}") from None
        return True
