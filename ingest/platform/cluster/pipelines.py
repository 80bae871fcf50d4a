"""Pipelines on a cluster: one that is a transaction on one node, and one that is spread over the nodes."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from redis.exceptions import MovedError

from ingest.platform.cluster.routing import BROKEN, REDIRECTED, QueuedCommand, Router
from ingest.platform.cluster.slots import KeysInDifferentSlots, slot_of_all
from ingest.platform.cluster.topology import ClusterChanged, NodePlace
from ingest.platform.memory_limit import Expected

if TYPE_CHECKING:  # redis-py's commands as methods that call execute_command; the stubs are of another version

    class AsyncCoreCommands: ...

else:
    from redis.commands import AsyncCoreCommands


TRIES = 3
"""Of a transaction that is told each time that its slot is elsewhere."""


class SpreadPipeline(AsyncCoreCommands):
    """Commands that are sent at once to the nodes of their keys; the answers come in the order of the commands.

    Commands of one node go through one connection, in their order. There is no transaction, and none across nodes:
    when one node is away its commands fail and the others do not.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._queued: list[QueuedCommand] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queued = []

    def execute_command(self, *args: Any, **options: Any) -> Self:
        """Queue a command; raises KeysApart for keys of several slots."""
        self._queued.append(QueuedCommand(slot_of_all(args), args, options))
        return self

    def on_each_node(self, *args: Any, **options: Any) -> Self:
        """Queue a command without a key behind the commands so far, on each node and connection that carries them out.

        Its answer is a list with the answer of each, in no particular order. So `WAITAOF` waits for what this pipeline
        wrote on every node.
        """
        self._queued.append(QueuedCommand(None, args, options))
        return self

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """The answers. With `raise_on_error` the first error is raised; without, it stands in the answer's place.

        That holds for a node that does not answer, too: other nodes' answers are not lost.
        """
        queued, self._queued = self._queued, []
        answers = await self._router.run_all(queued)
        if raise_on_error:
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        return answers


class SlotTransaction(AsyncCoreCommands):
    """MULTI, with WATCH where wanted, on the node of its first key; every key must be of that key's slot.

    Repeating a transaction that watches is the caller's: it raises ConnectionError, or ClusterChanged when its slot has
    moved meanwhile. Only the first WATCH, behind which nothing was read, follows the slot. One without WATCH is sent
    again when the slot is elsewhere, because nothing of it was carried out then.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._queued: list[QueuedCommand] = []
        self._slot: int | None = None
        self._place: NodePlace | None = None
        self._pipe: Any = None
        self._expected: Expected | None = None

    async def __aenter__(self) -> Self:
        await self._router.topology.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.reset()

    async def reset(self) -> None:
        """Forget what is queued and give the connection back."""
        pipe, self._pipe, self._slot, self._queued = self._pipe, None, None, []
        if pipe is not None:
            await pipe.reset()

    def multi(self) -> None:
        """Queue what follows, after WATCH."""
        self._bound().multi()

    def exceed_memory_limit(self, expected: Expected) -> None:
        """See ServerPipeline."""
        self._expected = expected
        if self._pipe is not None:
            self._pipe.exceed_memory_limit(expected)

    async def watch(self, *names: str) -> Any:
        """WATCH, on the node of the keys."""
        return await self.execute_command("WATCH", *names)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command, or run it at once between WATCH and `multi`; raises KeysApart for a key of another slot."""
        slot = slot_of_all(args)
        if self._slot is None:
            self._slot = slot
            self._bind()
        elif slot != self._slot:
            raise KeysInDifferentSlots(
                f"{args[0]} {args[1]!r} is not in the slot of this transaction; give its keys one hash tag"
            )
        pipe = self._bound()
        if args[0] == "WATCH" and not pipe.watching and not pipe.command_stack:
            return self._first_watch(args)
        answer = pipe.execute_command(*args, **options)
        if asyncio.iscoroutine(answer):
            return self._at_once(answer)
        self._queued.append(QueuedCommand(slot, args, options))
        return answer

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Carry out what is queued; raises WatchError when a watched key has changed."""
        if self._pipe is None:
            return []
        if self._pipe.watching:
            return await self._at_once(self._pipe.execute(raise_on_error))
        return await self._execute_unwatched(raise_on_error)

    async def _execute_unwatched(self, raise_on_error: bool) -> list[Any]:
        queued, self._queued = self._queued, []
        may_repeat = self._router.repeat
        for _ in range(TRIES):
            try:
                return await self._at_once(self._bound().execute(raise_on_error))
            except _Moved:
                pass
            except ClusterChanged:
                raise
            except BROKEN as error:
                assert self._place is not None
                assert self._slot is not None
                if not await self._router.goes_on(error, self._place, self._slot, may_repeat):
                    raise
                may_repeat = False
            self._bind()
            for one in queued:
                self._pipe.execute_command(*one.args, **one.options)
        raise ClusterChanged("a transaction was not carried out: its slot keeps moving")

    async def _first_watch(self, args: tuple[Any, ...]) -> Any:
        for _ in range(TRIES):
            try:
                return await self._at_once(self._bound().execute_command(*args))
            except _Moved:
                await self._pipe.reset()
                self._bind()
        raise ClusterChanged("a transaction was not begun: its slot keeps moving")

    async def _at_once(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """An answer of the node; a redirection of it is heeded and raised as one of ConnectionError."""
        place = self._place
        assert place is not None
        try:
            return await self._router.answer(place, answer)
        except REDIRECTED as error:
            await self._router.heed(error, place)
            if isinstance(error, MovedError):
                raise _Moved(str(error)) from error
            raise ClusterChanged(f"a transaction was not carried out: {error or type(error).__name__}") from error
        except BROKEN:
            await self._router.look_again(place)
            raise

    def _bind(self) -> None:
        assert self._slot is not None
        self._place = self._router.topology.place_of(self._slot)
        self._pipe = self._place.client.pipeline(transaction=True)
        if self._expected is not None:
            self._pipe.exceed_memory_limit(self._expected)

    def _bound(self) -> Any:
        if self._pipe is None:
            raise KeysInDifferentSlots("a transaction begins with a command that names a key")
        return self._pipe


class _Moved(ClusterChanged):
    """The slot is on another node, and nothing was carried out."""
