"""What a fleet said, what it was told, and what the log has of it in the end. The comparison is pure."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ingest.events.envelope import Recorded
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.log.position import START, Position, Token
from workers.upkeep import SOURCE as UPKEEP

REMEMBERED = 400
"""Acknowledged commands that agents send again."""
NAMED = 5


class Said(NamedTuple):
    """A command, how it was sent, and the position it was acknowledged with."""

    path: str
    body: Any
    position: str


@dataclass
class Ledger:
    """What was sent, and what was acknowledged."""

    sent: set[str] = field(default_factory=set[str])
    exact: dict[str, tuple[int, Position]] = field(default_factory=dict[str, tuple[int, Position]])
    """Event ids of single writes, with partition and position."""
    covered: dict[str, Token] = field(default_factory=dict[str, Token])
    """Event ids of batches, with a token that covers them."""
    forgotten: dict[str, str] = field(default_factory=dict[str, str])
    """Event ids whose document was forgotten, with the document's id."""
    to_forget: set[str] = field(default_factory=set[str])
    """Documents that somebody tried to forget."""
    history: deque[Said] = field(default_factory=lambda: deque[Said](maxlen=REMEMBERED))
    newest: deque[Position] = field(default_factory=lambda: deque[Position](maxlen=REMEMBERED))
    """Positions that were acknowledged last."""
    asking: set[object] = field(default_factory=set[object])
    """Requests that are not answered yet."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """How often things were done: retries, repeats, refusals by status."""

    @property
    def acknowledged(self) -> set[str]:
        """Event ids that somebody was told are stored."""
        return self.exact.keys() | self.covered.keys()

    def told(self, path: str, body: Any, position: str) -> None:
        """Note an acknowledgement that can be asked for again."""
        self.history.append(Said(path, body, position))


class Verdict(NamedTuple):
    """How the log differs from what was acknowledged; every list but `present` names faults."""

    acknowledged: int
    present: int
    lost: list[str]
    """Acknowledged, and not in the log."""
    duplicated: list[str]
    """In the log more than once."""
    invented: list[str]
    """In the log, and never sent."""
    misplaced: list[str]
    """Elsewhere than its acknowledgement said."""
    remaining: list[str]
    """Forgotten, and still there, or without the stub that stands for it."""

    @property
    def faultless(self) -> bool:
        """Whether the log has exactly what was acknowledged, where it was said to be."""
        return not any((self.lost, self.duplicated, self.invented, self.misplaced, self.remaining))

    def told(self) -> dict[str, Any]:
        """For the ledger's file: counts, and some names of what is wrong."""
        faults = {name: getattr(self, name) for name in ("lost", "duplicated", "invented", "misplaced", "remaining")}
        counts = {name: len(found) for name, found in faults.items()}
        examples = {name: found[:NAMED] for name, found in faults.items() if found}
        return {"acknowledged": self.acknowledged, "present": self.present, **counts, "examples": examples}


def compare(ledger: Ledger, events: Mapping[int, Sequence[Recorded]]) -> Verdict:
    """What the log, by partition, has of what the ledger says. Events that workers wrote themselves are passed over."""
    places: dict[str, list[tuple[int, Position]]] = {}
    stubs: set[tuple[int, Position]] = set()
    invented: list[str] = []
    for partition, recorded in events.items():
        for event in recorded:
            match event.data:
                case SubjectForgotten(subject=subject):
                    if subject not in ledger.to_forget:
                        invented.append(f"tombstone of {subject}")
                case EventErased(document=document):
                    if document not in ledger.to_forget:
                        invented.append(f"stub of {document}")
                    stubs.add((partition, event.position))
                case _ if event.envelope.source == UPKEEP:
                    pass  # summaries of sessions that ended
                case _:
                    places.setdefault(event.envelope.event_id, []).append((partition, event.position))
    kept = ledger.acknowledged - ledger.forgotten.keys()
    there = kept & places.keys()
    return Verdict(
        acknowledged=len(kept),
        present=len(there),
        lost=sorted(kept - there),
        duplicated=sorted(name for name, found in places.items() if len(found) > 1),
        invented=invented + sorted(places.keys() - ledger.sent),
        misplaced=sorted(name for name in there if not _as_told(ledger, name, places[name][0])),
        remaining=sorted(
            name
            for name in ledger.forgotten
            if name in places or (name in ledger.exact and ledger.exact[name] not in stubs)
        ),
    )


def _as_told(ledger: Ledger, name: str, place: tuple[int, Position]) -> bool:
    if name in ledger.exact:
        return place == ledger.exact[name]
    return place[1] <= ledger.covered[name].get(place[0], START)
