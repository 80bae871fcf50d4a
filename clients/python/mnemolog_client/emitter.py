"""Emitters: commands in, batches out, in the background, in order, each once.

`emit` returns when the command is in the queue; a thread, or a task, sends what waits. Whatever fails is sent again
with the same event ids, for as long as the emitter is open: only an answer of the server takes a command out of the
queue. One batch is on its way at a time, so what one emitter says of a session stays in order.
"""

import asyncio
import atexit
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self, TypeVar, Unpack

from mnemolog_client.answers import BatchAccepted
from mnemolog_client.calls import Awaiting, Blocking
from mnemolog_client.errors import EmitterClosed, EmitterFull, MnemologError, NotDelivered, ServerFault
from mnemolog_client.fields import OfObservation
from mnemolog_client.nouns import batch_of
from mnemolog_client.outbox import EmitterStats, Outbox
from mnemolog_client.retry import ONCE

CLOSE_WITHIN_S = 5.0
FLUSH_WITHIN_S = 30.0

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Emitter:
    """Sends from a thread; a context manager. Threads may share it. Made after a fork, not before."""

    def __init__(self, transport: Blocking, outbox: Outbox) -> None:
        self._transport, self._outbox = transport, outbox
        self._changed = threading.Condition()
        """Guards the outbox. Told of every command that comes or goes, and of closing."""
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="mnemolog-emitter", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def stats(self) -> EmitterStats:
        """What became of what was emitted."""
        with self._changed:
            return self._outbox.stats

    def observe(self, session_id: str, content: str = "", **fields: Unpack[OfObservation]) -> str:
        """Emit an observation; its event id."""
        return self.emit(_observation(session_id, content, fields))

    def emit(self, command: Mapping[str, Any]) -> str:
        """Queue a command of `POST /v1/events`, with its `type`; its event id.

        Raises EmitterFull, or waits for room; EmitterClosed; TooLarge; OSError when the spool cannot be written.
        """
        event_id, line = self._outbox.encode(command)
        with self._changed:
            while True:
                if self._outbox.closed:
                    raise EmitterClosed
                try:
                    self._outbox.put(line)
                    return event_id
                except EmitterFull:
                    if not (self._outbox.blocks and self._outbox.waiting):
                        raise
                    self._outbox.want_all()
                finally:
                    self._changed.notify_all()
                self._changed.wait()

    def flush(self, timeout_s: float = FLUSH_WITHIN_S) -> None:
        """Return when the server has acknowledged or refused what was emitted until now; else raises NotDelivered."""
        with self._changed:
            number = self._outbox.want_all()
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._outbox.is_settled(number), timeout_s):
                raise self._outbox.not_delivered()

    def close(self, timeout_s: float = CLOSE_WITHIN_S) -> None:
        """Send what waits, for so long at most, and stop.

        What is left stays in the spool, for the next emitter on that folder; without one, NotDelivered is raised.
        """
        atexit.unregister(self._close_at_exit)
        with self._changed:
            if self._given_up:
                return
            self._outbox.end()
            self._changed.notify_all()
        self._thread.join(timeout_s)
        with self._changed:
            self._given_up = True
            self._changed.notify_all()
            self._outbox.close()
            _check_delivered(self._outbox)

    def _run(self) -> None:
        while True:
            with self._changed:
                lines = self._next()
            if not lines:
                return
            outcome = self._attempt(lines)
            with self._changed:
                if self._given_up:
                    return
                self._outbox.settle(lines, outcome)
                self._changed.notify_all()
            self._outbox.tell_refused()

    def _next(self) -> list[bytes]:
        """What is to be sent, once it is due; nothing when the emitter is closed and nothing waits."""
        while not (self._given_up or self._outbox.is_over):
            due_in_s = self._outbox.due_in_s()
            if due_in_s == 0.0:
                if lines := self._outbox.batch():
                    return lines
                continue
            self._changed.wait(None if due_in_s == math.inf else due_in_s)
        return []

    def _attempt(self, lines: Sequence[bytes]) -> BatchAccepted | MnemologError:
        try:
            return self._transport.send(batch_of(lines), ONCE)
        except MnemologError as fault:
            return fault
        except (
            Exception
        ) as fault:  # for example the client was closed first: the commands stay, and the error is reported
            return _unexpected(fault)

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except NotDelivered as fault:
            logger.error("the process ends, and an emitter without a spool was not closed: %s", fault)


class AsyncEmitter:
    """Sends from a task; an asynchronous context manager. It belongs to one event loop.

    Files are written in a thread of its own.
    """

    def __init__(self, transport: Awaiting, outbox: Outbox) -> None:
        self._transport, self._outbox = transport, outbox
        self._changed = asyncio.Condition()
        """Guards the outbox. Told of every command that comes or goes, and of closing."""
        self._given_up = False
        self._files = ThreadPoolExecutor(1, "mnemolog-spool") if outbox.survives else None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="mnemolog-emitter")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def stats(self) -> EmitterStats:
        """What became of what was emitted."""
        return self._outbox.stats

    async def observe(self, session_id: str, content: str = "", **fields: Unpack[OfObservation]) -> str:
        """Emit an observation; its event id."""
        return await self.emit(_observation(session_id, content, fields))

    async def emit(self, command: Mapping[str, Any]) -> str:
        """Queue a command of `POST /v1/events`, with its `type`; its event id.

        Raises EmitterFull, or waits for room; EmitterClosed; TooLarge; OSError when the spool cannot be written.
        """
        event_id, line = self._outbox.encode(command)
        async with self._changed:
            while True:
                if self._outbox.closed:
                    raise EmitterClosed
                try:
                    await self._aside(lambda: self._outbox.put(line))
                    return event_id
                except EmitterFull:
                    if not (self._outbox.blocks and self._outbox.waiting):
                        raise
                    self._outbox.want_all()
                finally:
                    self._changed.notify_all()  # also when this is cancelled: the command may have been taken
                await self._changed.wait()

    async def flush(self, timeout_s: float = FLUSH_WITHIN_S) -> None:
        """Return when the server has acknowledged or refused what was emitted until now; else raises NotDelivered."""
        async with self._changed:
            number = self._outbox.want_all()
            self._changed.notify_all()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait_for(lambda: self._outbox.is_settled(number))
            except TimeoutError:
                raise self._outbox.not_delivered() from None

    async def close(self, timeout_s: float = CLOSE_WITHIN_S) -> None:
        """Send what waits, for so long at most, and stop.

        What is left stays in the spool, for the next emitter on that folder; without one, NotDelivered is raised.
        """
        async with self._changed:
            if self._given_up:
                return
            self._outbox.end()
            self._changed.notify_all()
        await asyncio.wait([self._task], timeout=timeout_s)
        self._given_up = True
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        async with self._changed:
            self._changed.notify_all()
            await self._aside(self._outbox.close)
        if self._files is not None:
            self._files.shutdown(wait=False)
        _check_delivered(self._outbox)

    async def _run(self) -> None:
        while True:
            async with self._changed:
                lines = await self._next()
            if not lines:
                return
            outcome = await self._attempt(lines)
            async with self._changed:
                await self._aside(lambda lines=lines, outcome=outcome: self._outbox.settle(lines, outcome))
                self._changed.notify_all()
            self._outbox.tell_refused()

    async def _next(self) -> list[bytes]:
        while not (self._given_up or self._outbox.is_over):
            due_in_s = self._outbox.due_in_s()
            if due_in_s == 0.0:
                if lines := await self._aside(self._outbox.batch):
                    return lines
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due_in_s == math.inf else due_in_s):
                    await self._changed.wait()
        return []

    async def _attempt(self, lines: Sequence[bytes]) -> BatchAccepted | MnemologError:
        try:
            return await self._transport.send(batch_of(lines), ONCE)
        except MnemologError as fault:
            return fault
        except (
            Exception
        ) as fault:  # for example the client was closed first: the commands stay, and the error is reported
            return _unexpected(fault)

    async def _aside(self, work: Callable[[], T]) -> T:
        """What `work` returns, which may touch files. A caller that is cancelled waits for its end."""
        if self._files is None:
            return work()
        future = asyncio.get_running_loop().run_in_executor(self._files, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise


def _observation(session_id: str, content: str, fields: OfObservation) -> dict[str, Any]:
    return {"type": "observe", **fields, "session_id": session_id, "content": content}


def _check_delivered(outbox: Outbox) -> None:
    if not outbox.waiting:
        return
    if not outbox.survives:
        raise outbox.not_delivered()
    logger.warning("%d commands stay in the spool", outbox.waiting)


def _unexpected(fault: Exception) -> ServerFault:
    logger.error("a batch could not be sent", exc_info=fault)
    return ServerFault("client_fault", repr(fault))
