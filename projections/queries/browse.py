"""The questions about documents and the log under one name, for callers that do not ask a noun's own class yet."""

from functools import partial

from ingest.log.event_log import EventLog
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from projections.queries.actions import Actions
from projections.queries.documents import DocumentReader
from projections.queries.health import Progress
from projections.queries.lessons import lessons_page
from projections.queries.log_events import LogEvents
from projections.queries.lookup import Lookup
from projections.queries.memories import Memories
from projections.queries.numbers import IntegerIdsOf
from projections.queries.observations import Observations
from projections.queries.relations import Relations
from projections.queries.sessions import Commits, Sessions, Summaries
from projections.queries.slots import Slots
from projections.search.service import ReplicaService


class Browse:
    """One attribute for every question, each a method of a noun's class."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        replica: ReplicaService,
        documents: DocumentReader,
        clock: Clock = system_clock,
    ) -> None:
        lookup, events = Lookup(replica, documents, clock), LogEvents(log, replica, documents)
        memories, observations = Memories(documents, lookup), Observations(replica, documents, clock)
        sessions, summaries, commits = Sessions(documents), Summaries(documents), Commits(documents)
        slots, actions, relations = Slots(documents, lookup), Actions(documents, clock), Relations(documents, lookup)
        self.partitions = log.partitions
        self.document, self.documents = lookup.document, lookup.documents
        self.count, self.found, self.projects = lookup.count, lookup.found, lookup.projects
        self.caught_up, self.applied = events.caught_up, events.applied
        self.events, self.applied_events = events.page, events.newly_applied
        self.memories, self.history = memories.page, memories.history
        self.lessons = partial(lessons_page, documents)
        self.timeline, self.beside, self.observed = observations.timeline, observations.beside, observations.recorded_by
        self.sessions, self.session, self.sessions_named = sessions.page, sessions.one, sessions.named
        self.session_observations = sessions.observations
        self.summaries, self.summary = summaries.page, summaries.of_session
        self.commits, self.session_commits = commits.page, commits.of_session
        self.slots, self.all_slots = slots.of_project, slots.all
        self.actions, self.open_work = actions.page, actions.open_work
        self.relations, self.newest_relations = relations.page, relations.newest
        self.edges, self.readable_relations = relations.of_documents, relations.readable
        self.projections = Progress(redis, log, replica)
        self.numbers = IntegerIdsOf(redis)
