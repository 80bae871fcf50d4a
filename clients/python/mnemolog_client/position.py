"""Positions: what a write answers and a read waits for."""

import threading


class Position:
    """The newest position in each partition of the log that was included; safe to share between threads.

    As text it is what reads take as `after`: `<partition>:<ms>-<seq>`, joined by commas, empty when nothing was
    included. It is never longer than one position for each partition, however many were included.
    """

    def __init__(self, text: str = "") -> None:
        self._newest: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self.include(text)

    def include(self, text: str) -> None:
        """Cover one more position, or several joined by commas. Raises ValueError for an invalid position."""
        read = [_read(part) for part in text.split(",") if part]
        with self._lock:
            for partition, place in read:
                self._newest[partition] = max(place, self._newest.get(partition, place))

    def __str__(self) -> str:
        with self._lock:
            newest = sorted(self._newest.items())
        return ",".join(f"{partition}:{ms}-{seq}" for partition, (ms, seq) in newest)

    def __repr__(self) -> str:
        return f"Position({str(self)!r})"


def _read(text: str) -> tuple[int, tuple[int, int]]:
    partition, _, place = text.partition(":")
    ms, _, seq = place.partition("-")
    try:
        return int(partition), (int(ms), int(seq))
    except ValueError:
        raise ValueError(f"{text[:80]!r} is not a position; expected <partition>:<ms>-<seq>") from None
