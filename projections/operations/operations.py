"""Commands that need a look at what is there first, and what is made of many documents; what the APIs import."""

from typing import NamedTuple

from projections.condensing.operations import Condensing
from projections.dead_letters.room import DeadLetters
from projections.forgetting.forget import Forgetting
from projections.operations.confirming import Confirming
from projections.operations.current import Current
from projections.operations.memories import MemoryOperations
from projections.operations.work import SlotOperations, WorkOperations


class Operations(NamedTuple):
    """All of them, ready to be used."""

    memories: MemoryOperations
    slots: SlotOperations
    work: WorkOperations
    forgetting: Forgetting
    condensing: Condensing
    current: Current
    letters: DeadLetters
    confirming: Confirming
