"""Sends commands to the primaries of their slots, and handles redirections.

A redirected command was not executed, so it is sent again. A command whose connection broke may have been executed: it
is sent again only if the client retries (see `connect`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    MovedError,
    RedisError,
    TimeoutError,
    TryAgainError,
)

from ingest.errors import reason_of
from ingest.platform.cluster.topology import Address, ClusterChanged, NodePlace, NodeSilent, Topology
from ingest.platform.tasks import end, node_timeout_s

T = TypeVar("T")

REDIRECTED = (AskError, MovedError, TryAgainError, ClusterDownError, MasterDownError)
"""Errors of a node that did nothing, because the slot is elsewhere, migrating, or without a primary."""
BROKEN = (ConnectionError, TimeoutError, OSError)
PAUSES_S = (0.0, 0.0, 0.05, 0.1, 0.2)
"""Delays before each retry of a redirected command. A failover takes longer than these: then the caller decides."""

TURNS = 10
"""Longer than opening a connection and a response take."""


class QueuedCommand(NamedTuple):
    """A command of a pipeline. Without a slot it runs on each node that has a command before it."""

    slot: int | None
    args: Sequence[Any]
    options: Mapping[str, Any]


@dataclass
class Router:
    """Runs commands on the right nodes of one cluster."""

    topology: Topology
    _: KW_ONLY
    repeat: bool

    async def run(self, slot: int, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """One command's answer. Raises ClusterChanged when the cluster keeps sending it around."""
        may_repeat, last = self.repeat, ""
        await self.topology.ready()
        for pause in PAUSES_S:
            await asyncio.sleep(pause)
            node = self.topology.place_of(slot)
            try:
                return await self.answer(node, node.client.execute_command(*args, **options))
            except asyncio.CancelledError:
                self.topology.doubt(node)
                raise
            except AskError as error:
                return await self._ask(error, node, args, options)
            except REDIRECTED as error:
                await self.heed(error, node)
                last = reason_of(error)
            except BROKEN as error:
                if not await self.goes_on(error, node, slot, may_repeat):
                    raise
                may_repeat, last = False, str(error)
        raise ClusterChanged(f"{args[0]}: the cluster kept redirecting: {last}")

    async def run_all(self, queued: Sequence[QueuedCommand]) -> list[Any]:
        """The answers of many commands, in order; an error stands in the place of its answer. The commands of one node
        go through one connection in their order, those of different nodes at the same time. What has no slot is
        answered by a list, with the answer of every connection that carried out commands before it."""
        answers: list[Any] = [None if item.slot is not None else [] for item in queued]
        todo = [n for n, item in enumerate(queued) if item.slot is not None]
        may_repeat = self.repeat
        for pause in PAUSES_S:
            if not todo:
                break
            await asyncio.sleep(pause)
            try:
                await self.topology.ready()
            except BROKEN as error:  # no node answers
                return _with(answers, todo, error)
            groups = self._by_node(queued, todo, answers)
            ran = await asyncio.gather(*(self._run_group(node, queued, group) for node, group in groups))
            todo = list[int]()
            again = False
            for (node, group), replies in zip(groups, ran, strict=True):
                again |= await self._take(answers, todo, queued, node, group, replies, may_repeat)
            # a command whose connection broke may have been carried out: it is sent once more, not twice
            may_repeat = may_repeat and not again
        return _with(answers, todo, ClusterChanged("the cluster kept redirecting"))

    async def run_everywhere(
        self, args: Sequence[Any], options: Mapping[str, Any], *, of_any: bool = False
    ) -> list[Any]:
        """What every primary answers to a command without a key; raises the first error. With `of_any` those that are
        away are left out, unless all are."""
        await self.topology.ready()
        answers, broken = await self._everywhere(args, options)
        if broken and self.repeat:
            answers, broken = await self._everywhere(args, options)
        # a node that lacks a script when it is back says so, and gets it then
        if (of_any or args[0] == "SCRIPT LOAD") and broken < len(answers):
            answers = [answer for answer in answers if not isinstance(answer, BROKEN)]
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def _everywhere(self, args: Sequence[Any], options: Mapping[str, Any]) -> tuple[list[Any], int]:
        """What every primary answers, and with how many the connection broke; then the cluster was asked again."""
        nodes = self.topology.primaries()
        asking = (self._ask_primary(node, args, options) for node in nodes)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        broken = [node for node, answer in zip(nodes, answers, strict=True) if isinstance(answer, BROKEN)]
        if broken:
            await self.look_again(broken[0])
        return answers, len(broken)

    async def _ask_primary(self, node: NodePlace, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if self.topology.is_silent(node.address):
            raise NodeSilent(f"{node.address} is not responding")
        return await self.answer(node, node.client.execute_command(*args, **options))

    async def heed(self, error: Exception, node: NodePlace) -> None:
        """Learn from a redirection."""
        await self.look_again(node)
        if isinstance(error, MovedError):
            self.topology.moved(error, node.address)

    async def goes_on(self, error: Exception, node: NodePlace, slot: int, may_repeat: bool) -> bool:
        """Whether a command whose connection broke is to be sent once more. A node that did not answer in time is not
        asked the same again; another one that took its place is."""
        await self.look_again(node)
        if not may_repeat:
            return False
        try:
            elsewhere = self.topology.place_of(slot).address != node.address
        except ClusterChanged:
            return False
        return elsewhere or not isinstance(error, TimeoutError)

    async def look_again(self, node: NodePlace) -> None:
        """Read the topology again, unless that was done since."""
        try:
            await self.topology.refresh(node.version, without=node.address)
        except BROKEN:
            pass  # the caller's own error says as much

    async def answer(self, node: NodePlace, command: Coroutine[Any, Any, T]) -> T:
        """What a node answers. Raises TimeoutError and marks the node as silent when the limit is over and it does not
        answer a PING either: one that does is at work, and is waited for as the client waits."""
        limit = node_timeout_s()
        if limit is None:
            return await command
        answering = asyncio.create_task(command)
        try:
            while not (await asyncio.wait([answering], timeout=limit / 2))[0]:
                if not await self._is_at_work(node, limit / 2) and not answering.done():
                    self.topology.silence(node)
                    raise TimeoutError(f"{node.address} did not respond within {limit:g} s")
            return answering.result()
        finally:
            if not answering.done():
                await end(answering)

    async def _is_at_work(self, node: NodePlace, within_s: float) -> bool:
        """Whether a node answers a PING."""
        # waits in turns of the event loop, each of which sees what has arrived: to a process that was itself stopped
        # for so long every node would seem silent
        asking = asyncio.create_task(node.client.execute_command("PING"))
        try:
            for _ in range(TURNS):
                if (await asyncio.wait([asking], timeout=within_s / TURNS))[0]:
                    asking.result()
                    return True
        except BROKEN:
            pass
        finally:
            if not asking.done():
                await end(asking)
        return False

    def _by_node(
        self, queued: Sequence[QueuedCommand], todo: Sequence[int], answers: list[Any]
    ) -> list[tuple[NodePlace, list[int]]]:
        """The commands by node, each node's with what has no slot behind them, in order. One whose slot has no primary,
        or a silent one, gets that for an answer."""
        groups: dict[Address, tuple[NodePlace, list[int]]] = {}
        requested = set(todo)
        for n, command in enumerate(queued):
            if command.slot is None:
                for _, group in groups.values():
                    group.append(n)
            elif n in requested:
                try:
                    node = self.topology.place_of(command.slot)
                except ClusterChanged as error:
                    answers[n] = error
                else:
                    groups.setdefault(node.address, (node, []))[1].append(n)
        return list(groups.values())

    async def _run_group(
        self, node: NodePlace, queued: Sequence[QueuedCommand], group: Sequence[int]
    ) -> list[Any] | Exception:
        try:
            async with node.client.pipeline(transaction=False) as pipe:
                for n in group:
                    pipe.execute_command(*queued[n].args, **queued[n].options)
                return await self.answer(node, pipe.execute(raise_on_error=False))
        except asyncio.CancelledError:  # the caller gave up waiting: the node may be down
            self.topology.doubt(node)
            raise
        except BROKEN as error:
            return error

    async def _take(
        self, answers: list[Any], todo: list[int], queued: Sequence[QueuedCommand],
        node: NodePlace, group: Sequence[int], replies: list[Any] | Exception, may_repeat: bool,
    ) -> bool:  # fmt: skip
        """Keep what a node answered, and note in `todo` what has to be sent again. True when a connection broke."""
        if isinstance(replies, Exception):
            slots = {queued[n].slot for n in group} - {None}
            goes_on = await self.goes_on(replies, node, next(slot for slot in slots if slot is not None), may_repeat)
            for n in group:
                if queued[n].slot is None:
                    if not goes_on:
                        answers[n].append(replies)
                elif goes_on:
                    todo.append(n)
                else:
                    answers[n] = replies
            return True
        for n, answer in zip(group, replies, strict=True):
            command = queued[n]
            if command.slot is None:
                answers[n].append(answer)
            elif isinstance(answer, AskError):
                try:
                    answers[n] = await self._ask(answer, node, command.args, command.options)
                except (RedisError, OSError) as error:
                    answers[n] = error
            elif isinstance(answer, REDIRECTED):
                await self.heed(answer, node)
                todo.append(n)
            else:
                answers[n] = answer
        return False

    async def _ask(self, error: AskError, node: NodePlace, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """The answer of the node that a slot is moving to, for a key that is there already."""
        redirection: Any = error
        client = self.topology.client_at(Address(redirection.host or node.address.host, int(redirection.port)))
        async with client.pipeline(transaction=False) as pipe:
            pipe.execute_command("ASKING")
            pipe.execute_command(*args, **options)
            _, answer = await pipe.execute(raise_on_error=False)
        if isinstance(answer, REDIRECTED):
            raise ClusterChanged(f"{args[0]}: its slot is migrating") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer


def _with(answers: list[Any], todo: Sequence[int], error: Exception) -> list[Any]:
    for n in todo:
        answers[n] = error
    return answers


SEPARATOR = "|"


def merged_info(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """INFO: of whole numbers the greatest, of the rest what the first primary says. So memory is that of the fullest
    primary, which is the one that will refuse writes, and something is under way (`aof_rewrite_in_progress`) when it is
    on any of them."""
    merged: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            if name not in merged:
                merged[name] = value
            elif isinstance(value, int) and isinstance(merged[name], int):
                merged[name] = max(merged[name], value)
    return merged


def merged_config(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """CONFIG GET: the value that all have; different ones side by side, `always|everysec`."""
    names = dict.fromkeys(name for answer in answers for name in answer)
    return {
        name: SEPARATOR.join(dict.fromkeys(str(answer[name]) for answer in answers if name in answer)) for name in names
    }


def first(answers: Sequence[Any]) -> Any:
    """The first primary's."""
    return answers[0] if answers else None


MERGED: dict[str, Callable[[Sequence[Any]], Any]] = {"INFO": merged_info, "CONFIG GET": merged_config}
"""By command; for others the first primary's answer is used."""


Key: TypeAlias = str | bytes

_ONLY_KEYS = {"MGET", "UNLINK", "DEL", "EXISTS", "TOUCH", "SUNIONSTORE", "WATCH"}
_COUNTED_KEYS = {"EVALSHA", "EVAL"}
_STREAMS = {"XREAD", "XREADGROUP"}
_NO_KEY = {
    "BGREWRITEAOF", "CLIENT", "CONFIG", "DBSIZE", "FLUSHALL", "INFO", "PING", "SCRIPT", "TIME", "WAIT", "WAITAOF",
}  # fmt: skip
"""By the first word (`CONFIG GET`)."""


class KeysInDifferentSlots(ValueError):
    """A command or transaction names keys of several slots (or none): a fault of the program, not of the cluster."""


def keys_of(command: Sequence[Any]) -> Sequence[Key]:
    """The keys of a command as redis-py sends it; none for a command about a whole server."""
    name = str(command[0]).upper()
    if name in _ONLY_KEYS:
        return command[1:]
    if name == "MSET":
        return command[1::2]
    if name in _COUNTED_KEYS:
        return command[3 : 3 + int(command[2])]
    if name in _STREAMS:
        streams = command[next(n for n, word in enumerate(command) if word in ("STREAMS", b"STREAMS")) + 1 :]
        return streams[: len(streams) // 2]
    if name.partition(" ")[0] in _NO_KEY:
        return ()
    return command[1:2]


def slot_of(key: Key) -> int:
    """CRC16 of the key, or of its hash tag, modulo 16,384."""
    return int(key_slot(key.encode() if isinstance(key, str) else key))


def slot_of_all(command: Sequence[Any]) -> int:
    """The one slot of a command's keys; raises KeysInDifferentSlots."""
    slots = {slot_of(key) for key in keys_of(command)}
    if len(slots) != 1:
        what = f"keys in {len(slots)} slots" if slots else "no key"
        text = " ".join([str(command[0]), *map(repr, keys_of(command)[:4])])
        raise KeysInDifferentSlots(f"{text} names {what}; on a cluster it needs keys with one hash tag")
    return slots.pop()
