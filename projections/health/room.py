"""Room for writes between two looks at the log's server: what was accepted since the last one counts at once.

Every process sees the same room, and knows of its own writes alone; so each may take its share of the room, and all
together never more than there is.
"""

from ingest.errors import Overloaded
from ingest.platform.sizes import mib


class Room:
    """Bytes that writes of this process may still take, with what projecting them takes. One event loop."""

    def __init__(self) -> None:
        self._share: int | None = None
        """As of the last look; None for any amount."""
        self._why = ""
        self._under_way = 0
        self._ended = 0
        """Of all writes that ended, ever."""
        self._ended_before = 0
        """Of those that had ended when the last look began: it saw them."""

    def begin_look(self) -> int:
        """Note where writes stand before the server is looked at, for `looked`."""
        return self._ended

    def looked(self, began: int, share: int | None, why: str = "") -> None:
        """The share of the room that a look found, and how it comes about in words.

        `began` is what `begin_look` returned.
        """
        self._ended_before, self._share, self._why = began, share, why

    def forget(self) -> None:
        """Nobody knows what room there is."""
        self._share = None

    def taken(self, size: int) -> "_Taken":
        """Counts a write while it is under way (`with`), and behind that until a look has seen it.

        Raises Overloaded when it is too much.
        """
        used = self._under_way + self._ended - self._ended_before
        if self._share is not None and used + size > self._share:
            left = mib(max(0, self._share - used))
            raise Overloaded(
                f"{self._why}; this write, with projecting it, may take {mib(size)}, and {left} are left until the "
                "server is looked at again",
                cause="memory",
            )
        return _Taken(self, size)

    def begin(self, size: int) -> None:
        """A write is under way."""
        self._under_way += size

    def end(self, size: int) -> None:
        """It is not any more."""
        self._under_way -= size
        self._ended += size


class _Taken:
    """A write under way. Every write makes one, so it is no generator, which would take four times as long."""

    __slots__ = ("_room", "_size")

    def __init__(self, room: Room, size: int) -> None:
        self._room, self._size = room, size

    def __enter__(self) -> None:
        self._room.begin(self._size)

    def __exit__(self, *_: object) -> None:
        self._room.end(self._size)
