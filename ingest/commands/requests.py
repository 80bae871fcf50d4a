"""Every command: what callers may ask for. Imperative, tagged by `type`; each is beside its decision."""

from typing import TypeAlias, get_args

from ingest.commands.actions import WriteAction
from ingest.commands.forgetting import ForgetSubject
from ingest.commands.lessons import RecordLesson, ReinforceLesson, RetireLesson, ReviseLesson, TriggerLesson
from ingest.commands.memories import ChangeVisibility, CondenseMemories, ConfirmMemory, Relate, Remember, ReviseMemory
from ingest.commands.sessions import EndIdleSession, LinkCommit, Observe, RetireSession, SummariseSession, TrackSession
from ingest.commands.slots import DeleteSlot, SetSlot

WriteCommand: TypeAlias = (
    Observe | Remember | RecordLesson | TrackSession | LinkCommit | SetSlot | DeleteSlot | WriteAction | Relate
)
"""The commands a batch may hold: those that need no look at what is there."""

AnyCommand: TypeAlias = (
    WriteCommand
    | ReviseMemory
    | ChangeVisibility
    | ConfirmMemory
    | ReinforceLesson
    | ReviseLesson
    | TriggerLesson
    | RetireLesson
    | SummariseSession
    | CondenseMemories
    | EndIdleSession
    | RetireSession
    | ForgetSubject
)
"""Every command. Those that are not a WriteCommand come from `projections.operations`, which has looked."""

WRITE_TYPES = tuple(str(command.__struct_config__.tag) for command in get_args(WriteCommand))
