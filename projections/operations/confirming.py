"""What was shown to an agent and proved right: memories that count for more, lessons that grow."""

from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from ingest.commands.decide import Caller, ConfirmMemory, ReinforceLesson
from ingest.ids import DocumentId, new_event_id
from projections.documents.access import Reader, may_read
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.operations.current import Current


class Confirmed(Struct, frozen=True, kw_only=True):
    """The memories and lessons that count for more now, those that are not there, and the position behind it all.

    `position` is empty where nothing was confirmed.
    """

    event_id: str
    confirmed: list[str]
    unknown: list[str]
    position: str


class Confirming:
    """Counts what proved right."""

    def __init__(self, current: Current) -> None:
        self._current = current

    async def confirm(self, names: Sequence[str], reader: Reader, caller: Caller, event_id: str = "") -> Confirmed:
        """Confirm memories and lessons, each once; sent again with its event id, it changes nothing.

        Whatever else is named, was superseded or retired, or the reader may not see, is unknown.
        """
        event_id = event_id or new_event_id()
        await self._current.settle()
        found = await self._current.documents.find_all([DocumentId(name) for name in dict.fromkeys(names)])
        commands = {
            one.document.id: command
            for one in found
            if may_read(one.document, reader) and (command := _command(one.document, reader, event_id)) is not None
        }
        position = str(await self._current.append_batch(list(commands.values()), caller)) if commands else ""
        return Confirmed(
            event_id=event_id,
            confirmed=list(commands),
            unknown=[name for name in dict.fromkeys(names) if name not in commands],
            position=position,
        )


def _command(known: Document, reader: Reader, event_id: str) -> ConfirmMemory | ReinforceLesson | None:
    own = f"confirm:{blake2b(f'{event_id}:{known.id}'.encode(), digest_size=16).hexdigest()}"
    match known:
        case Memory() if known.is_latest:
            return ConfirmMemory(event_id=own, project=known.project, agent_id=reader.agent_id, memory=known.id)
        case Lesson() if not known.retired_ms:
            return ReinforceLesson(event_id=own, project=known.project, agent_id=reader.agent_id, lesson=known.id)
        case _:
            return None
