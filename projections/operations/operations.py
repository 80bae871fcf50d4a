"""Commands that need a look at what is there first, and what is made of many documents; what the APIs import."""

from typing import NamedTuple

from projections.condensing.operations import Condensing
from projections.dead_letters.operations import DeadLetterOperations
from projections.forgetting.forget import Forgetting
from projections.operations.current import Current
from projections.operations.memories import MemoryOperations
from projections.operations.work import Confirming, SlotOperations, WorkOperations


class Operations(NamedTuple):
    """All of them, ready to be used."""

    memories: MemoryOperations
    slots: SlotOperations
    work: WorkOperations
    forgetting: Forgetting
    condensing: Condensing
    current: Current
    letters: DeadLetterOperations
    confirming: Confirming
