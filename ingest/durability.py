"""Durability levels of an acknowledgment, weakest first, and their comparison. Pure."""

from collections.abc import Iterable
from typing import Literal, get_args

from ingest.errors import CommandRejected

Durability = Literal["memory", "fsync", "replicated"]
"""`memory`: in the server's memory; a power failure or a crash can lose it. `fsync`: on the server's disk.
`replicated`: on the disks of the server and of at least one replica."""

LEVELS: tuple[Durability, ...] = get_args(Durability)


def reaches(reached: Durability, requested: Durability | None) -> bool:
    """Whether a level is the requested one or better; always true if none was requested."""
    return requested is None or LEVELS.index(reached) >= LEVELS.index(requested)


def weakest(levels: Iterable[Durability]) -> Durability:
    """The weakest of some levels; `memory` of none."""
    distinct = set(levels)
    for level in LEVELS:
        if level in distinct:
            return level
    return "memory"


def parse_durability(text: str | None, field: str) -> Durability | None:
    """The level that a text names, None for None; raises CommandRejected naming `field`."""
    if text is None:
        return None
    for level in LEVELS:
        if text == level:
            return level
    raise CommandRejected(f"{text[:40]!r} is not a durability level; valid levels: {', '.join(LEVELS)}", field)
