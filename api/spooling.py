"""Moves files in clients' spool folders into the log, within the API process.

A file is deleted after its commands are acknowledged. After a crash in between it is read again, and its event ids
prevent duplicates. While the log is down or full the files stay where they are.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ingest.commands.decide import Caller
from ingest.commands.handler import CommandHandler
from ingest.commands.spool import Spool, Spooled
from ingest.errors import LogUnavailable, Overloaded
from ingest.platform.tasks import end

EVERY_S = 3.0  # no hook waits for these commands
BATCH_FILES = 200
WARN_EVERY = 100
"""Failed turns between two log messages about it: five minutes."""

logger = logging.getLogger(__name__)


@dataclass
class Spooling:
    """Drains spools every few seconds, as one caller. Use it as an async context manager, or call `drain`."""

    _spools: Sequence[Spool]
    _commands: CommandHandler
    _caller: Caller
    every_s: float = EVERY_S

    def __post_init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._turns_without_log = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="spooling")
        return self

    async def __aexit__(self, *exception: object) -> None:
        await end(self._task)

    async def drain(self) -> int:
        """Append all spooled files; returns the number of files. Raises LogUnavailable, Overloaded or OSError."""
        return sum([await self._drain(spool) for spool in self._spools])

    async def _drain(self, spool: Spool) -> int:
        gone = 0
        while taken := await asyncio.to_thread(spool.take, BATCH_FILES):
            reasons = await self._store(taken)
            await asyncio.to_thread(_clear, spool, taken, reasons)
            gone += len(taken)
        if gone:
            logger.info("%d files of %s were written to the log", gone, spool.folder)
        return gone

    async def _store(self, taken: Sequence[Spooled]) -> dict[str, str]:
        """Append the commands; returns the refusal reasons by file name."""
        owners = [file.name for file in taken for _ in file.commands]
        try:
            outcome = await self._commands.handle_batch(
                [command for file in taken for command in file.commands], self._caller
            )
        except (LogUnavailable, Overloaded):
            raise
        except Exception as error:  # a bug with one file must not block other files
            if len(taken) > 1:
                return {name: why for file in taken for name, why in (await self._store([file])).items()}
            logger.exception("%s cannot be stored", taken[0].name)
            return {taken[0].name: f"internal: {error!r}"}
        return {owners[number]: f"{error.code}: {error.message}" for number, error in outcome.rejected}

    async def _run(self) -> None:
        while True:
            for spool in self._spools:
                await self._turn(spool)
            await asyncio.sleep(self.every_s)

    async def _turn(self, spool: Spool) -> None:
        """Drain one spool; an error is retried on the next turn and does not block other spools."""
        try:
            await self._drain(spool)
            self._turns_without_log = 0
        except (LogUnavailable, Overloaded) as error:
            if self._turns_without_log % WARN_EVERY == 0:
                logger.warning("%s waits: %s", spool.folder, error)
            self._turns_without_log += 1
        except OSError as error:
            logger.warning("%s cannot be drained: %s", spool.folder, error)
        except Exception:  # a bug with one spool must not block other spools
            logger.exception("%s cannot be drained", spool.folder)


def _clear(spool: Spool, taken: Sequence[Spooled], reasons: dict[str, str]) -> None:
    for file in taken:
        if reason := reasons.get(file.name):
            spool.reject(file.name, reason)
        else:
            spool.done(file.name)
