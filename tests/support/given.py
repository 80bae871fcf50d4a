"""Given what was recorded, when this happens, then that is there: folds over a store in memory."""

from collections.abc import Sequence
from typing import Any, TypeVar

from factories import PROJECT, SESSION_NAME, TENANT, place
from folding import apply, contents, folded, members, one_by_one, replayed

from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from projections.nouns.action import Action, action_id
from projections.nouns.batch import mark_of
from projections.nouns.document import Document
from projections.nouns.fold import Changes
from projections.nouns.lesson import Lesson, lesson_id
from projections.nouns.memory import Memory, memory_id
from projections.nouns.observation import Observation, observation_id
from projections.nouns.session import Session, Summary, session_document_id, summary_id
from projections.nouns.tombstone import SupersededEvent, Tombstone
from projections.store.protocol import MemoryStore

D = TypeVar("D")


class Given:
    """A store after some batches; `when` folds one more and keeps what it changed."""

    def __init__(self, *batches: Sequence[Recorded]) -> None:
        self.store: MemoryStore = folded(*batches)
        self.events = [event for batch in batches for event in batch]
        self.changes = Changes({}, {})

    def when(self, *events: Recorded) -> "Given":
        self.changes = apply(self.store, events)
        self.events += events
        return self

    def then_nothing(self) -> None:
        assert dict(self.changes.documents) == {}

    def then_replay_is_the_same(self) -> None:
        """However it was batched: single events, and a replay of the log as it was left, end in the same place."""
        assert contents(one_by_one(self.events)) == contents(self.store)
        assert contents(replayed(self.events, self.store)) == contents(self.store)

    def document(self, name: str) -> Document | None:
        return self.store.documents.get(DocumentId(name))

    def one(self, name: str, kind: type[D]) -> D:
        """The document of that id, which is of that kind."""
        results = self.document(name)
        assert isinstance(results, kind)
        return results

    def session(self, name: str = SESSION_NAME) -> Session:
        return self.one(session_document_id(TENANT, PROJECT, name), Session)

    def summary(self, name: str = SESSION_NAME) -> Summary:
        return self.one(summary_id(session_document_id(TENANT, PROJECT, name)), Summary)

    def memory(self, event: Recorded) -> Memory:
        return self.one(memory_id(event), Memory)

    def tombstone(self, event: Recorded) -> Tombstone:
        """That of a memory."""
        return self.one(memory_id(event), Tombstone)

    def observation(self, event: Recorded) -> Observation:
        return self.one(observation_id(event), Observation)

    def lesson(self, event: Recorded) -> Lesson:
        return self.one(id_of(event), Lesson)

    def action(self, event: Recorded) -> Action:
        return self.one(action_id(event), Action)

    def mark(self, event: Recorded) -> SupersededEvent:
        return self.one(mark_of(event), SupersededEvent)

    def erased(self) -> list[Any]:
        """The positions whose entries are erased, in order."""
        return sorted(self.store.erased)

    def is_listed(self, name: str) -> bool:
        return any(name in member for result in members(self.store).values() for member in result)


def given(*events: Recorded) -> Given:
    """A store after these events, in one batch."""
    return Given(events)


def later(event: Recorded, n: int) -> Recorded:
    """The same event once more in the log, behind the dedup window."""
    return event._replace(position=place(n))


def id_of(lesson: Recorded) -> DocumentId:
    """The id of the lesson that an event states."""
    return lesson_id(lesson, lesson.data)  # pyright: ignore[reportArgumentType]
