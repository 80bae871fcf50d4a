"""Which keys a command names, and which slot of a cluster they are in. Pure."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from redis.crc import key_slot

Key: TypeAlias = str | bytes

_ONLY_KEYS = {"MGET", "UNLINK", "DEL", "EXISTS", "TOUCH", "SUNIONSTORE", "WATCH"}
_COUNTED_KEYS = {"EVALSHA", "EVAL"}
_STREAMS = {"XREAD", "XREADGROUP"}
_NO_KEY = {
    "BGREWRITEAOF",
    "CLIENT",
    "CONFIG",
    "DBSIZE",
    "FLUSHALL",
    "INFO",
    "PING",
    "SCRIPT",
    "TIME",
    "WAIT",
    "WAITAOF",
}
"""By their first word (`CONFIG GET`)."""


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
    """The one slot of a command's keys; raises KeysApart."""
    slots = {slot_of(key) for key in keys_of(command)}
    if len(slots) != 1:
        what = f"keys of {len(slots)} slots" if slots else "no key"
        raise KeysInDifferentSlots(f"{_command_text(command)} names {what}; on a cluster it needs keys of one hash tag")
    return slots.pop()


def _command_text(command: Sequence[Any]) -> str:
    return " ".join([str(command[0]), *(repr(key) for key in keys_of(command)[:4])])
