"""Forked processes."""

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from subprocess import TimeoutExpired

from ingest.platform.processes import on_stop, prepare_child


class Fork:
    """A process forked from this one, with what a Child uses of `subprocess.Popen`. It ends when this one does."""

    stdin = None

    def __init__(self, work: Callable[[], None]) -> None:
        self._process = get_context("fork").Process(target=_run, args=(work,))
        self._process.start()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, -N after signal N; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """See `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> None:
        """Return when it has ended; raises TimeoutExpired."""
        self._process.join(timeout)
        if timeout is not None and self.returncode is None:
            raise TimeoutExpired("a forked process", timeout)

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


def _run(work: Callable[[], None]) -> None:
    on_stop(signal.SIG_DFL)
    # SIGTERM would let it hold the ports, which the next parent needs, until its last stream has ended
    prepare_child(at_the_end=signal.SIGKILL)()
    work()
