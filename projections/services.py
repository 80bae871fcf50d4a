"""Queries, and commands that read first; shared by the APIs and the MCP tools."""

from collections.abc import Callable
from typing import NamedTuple

from projections.condensing.operations import Condensing
from projections.dead_letters.room import DeadLetters
from projections.forgetting.forget import Forgetting
from projections.health.queries import Diagnose, ProjectionProgress
from projections.operations.claims import Claims
from projections.operations.current import Current
from projections.operations.feedback import GivingFeedback
from projections.operations.inbox import Inbox
from projections.operations.memory import MemoryOperations
from projections.operations.work import Confirming, SlotOperations, WorkOperations
from projections.queries.context import Compile
from projections.queries.graph import Graph
from projections.queries.lesson import Lessons
from projections.queries.listed import IntegerIds, Noun
from projections.queries.log_events import Audit, LogEvents
from projections.queries.lookup import Lookup
from projections.queries.memory import Memories
from projections.queries.observation import AroundQueries, Observations
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import Recall
from projections.queries.session import Commits, Sessions, Summaries
from projections.queries.views import VIEWS as VIEWS  # of all kinds: their modules are imported here
from projections.queries.work import Actions, Relations, Slots
from projections.store.read_ledger import ReadLedger
from projections.webhooks.subscriptions import Webhooks


class Queries(NamedTuple):
    """All questions, by what they are about."""

    recall: Recall
    context: Compile
    numbers: Callable[[str, Noun], IntegerIds]
    lookup: Lookup
    memories: Memories
    lessons: Lessons
    observations: Observations
    sessions: Sessions
    summaries: Summaries
    slots: Slots
    actions: Actions
    relations: Relations
    commits: Commits
    log: LogEvents
    reads: ReadLedger
    graph: Graph
    profiles: ProjectProfiles
    around: AroundQueries
    audit: Audit
    diagnose: Diagnose
    progress: ProjectionProgress


class Operations(NamedTuple):
    """All of them, ready to be used."""

    memories: MemoryOperations
    slots: SlotOperations
    work: WorkOperations
    claims: Claims
    forgetting: Forgetting
    condensing: Condensing
    current: Current
    letters: DeadLetters
    confirming: Confirming
    feedback: GivingFeedback
    inbox: Inbox
    webhooks: Webhooks
