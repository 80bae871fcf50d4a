"""Commands that need a look at what is there first, and what is made of many documents; what the APIs import."""

from typing import NamedTuple

from projections.operations.condensing.condensing import Condensing as Condensing
from projections.operations.confirming import Confirmed as Confirmed
from projections.operations.confirming import Confirming as Confirming
from projections.operations.current import Current
from projections.operations.dead_letters import DeadLetterOperations
from projections.operations.forget import Forgetting
from projections.operations.memories import MemoryChanges as MemoryChanges
from projections.operations.memories import MemoryOperations
from projections.operations.session_cap import SessionCap as SessionCap
from projections.operations.work import SlotOperations, WorkOperations


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
