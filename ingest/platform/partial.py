"""Reads that continue without the data of an unreachable cluster node, and how long to wait for a node.

A read of many partitions names keys of every node. Within `partial_reads` no node is waited for longer than PATIENCE_S,
unless it answers a PING, and a node that did not answer is not waited for again until it does. A read of partitions may
then leave out those it cannot read; outside, the read fails. A write never leaves anything out.
"""

import asyncio
from collections.abc import Awaitable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from redis.exceptions import ConnectionError, TimeoutError

from ingest.errors import LogUnavailable
from ingest.platform.tasks import waiting_at_most

T = TypeVar("T")

PATIENCE_S = 0.5
"""A node normally answers a read within milliseconds. Migrating a slot key by key has delayed reads for seconds."""
UNREACHABLE = (ConnectionError, TimeoutError, OSError, LogUnavailable)
"""The errors of an unreachable node."""

_left_out: ContextVar[set[int] | None] = ContextVar("left_out", default=None)
_whole: ContextVar[frozenset[int]] = ContextVar("whole", default=frozenset())
"""The partitions of the whole response, while it is assembled from parts."""


@contextmanager
def partial_reads() -> Generator[set[int]]:
    """Within, reads may leave partitions out, and add them to the set that is yielded."""
    left_out: set[int] = set()
    token = _left_out.set(left_out)
    try:
        with waiting_at_most(PATIENCE_S):
            yield left_out
    finally:
        _left_out.reset(token)


@contextmanager
def whole_reads() -> Generator[None]:
    """Within, nothing is left out, whatever is allowed around it: for a result that must be complete."""
    token = _left_out.set(None)
    try:
        with waiting_at_most(None):
            yield
    finally:
        _left_out.reset(token)


@contextmanager
def made_of_parts(partitions: Iterable[int]) -> Generator[None]:
    """Within, a part of an answer may be missing entirely, as long as one of these partitions can be read."""
    token = _whole.set(frozenset(partitions))
    try:
        yield
    finally:
        _whole.reset(token)


def leave_out(unread: Collection[int], requested: Iterable[int], error: Exception) -> None:
    """Continue without partitions that could not be read. Raises the error if all requested ones are missing (see
    `made_of_parts`), and outside of `partial_reads`."""
    so_far = _left_out.get()  # None: nothing may be missing
    if so_far is None or so_far.issuperset((_whole.get() or {*requested}) - {*unread}):
        raise error
    so_far.update(unread)


@contextmanager
def leaving_out(partition: int, requested: Iterable[int]) -> Generator[None]:
    """Continue after this block if the partition's node is away; see `leave_out`."""
    try:
        yield
    except UNREACHABLE as error:
        leave_out([partition], requested, error)


async def readable(reads: Mapping[int, Awaitable[T]]) -> dict[int, T]:
    """Concurrent reads of partitions, without those that cannot be read; see `leave_out`."""
    answers = await asyncio.gather(*reads.values(), return_exceptions=True)
    readings: dict[int, T] = {}
    for partition, answer in zip(reads, answers, strict=True):
        if isinstance(answer, UNREACHABLE):
            leave_out([partition], reads, answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            readings[partition] = answer
    return readings


def left_out() -> frozenset[int]:
    """The partitions that reads have left out so far."""
    return frozenset(_left_out.get() or ())


def check_missing(what: str) -> None:
    """Raise LogUnavailable if `what`, which was not found, may be in a partition that was left out."""
    if unread := left_out():
        raise LogUnavailable(f"it is unknown whether there is {what}; {left_out_message(unread)}")


def left_out_message(partitions: Collection[int]) -> str:
    """What is missing, for people."""
    return f"left out: partitions {', '.join(map(str, sorted(partitions)))}, on an unreachable cluster node"
