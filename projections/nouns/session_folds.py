"""Sessions: started, ended, summarised, retired; the observations recorded and the commits made in them."""

from msgspec.structs import replace

from ingest.events.envelope import Recorded
from ingest.events.session import (
    ObservationCompressed,
    ObservationRecorded,
    SessionCommitted,
    SessionEnded,
    SessionRetired,
    SessionStarted,
    SessionSummarised,
)
from ingest.ids import OBSERVATION
from ingest.platform.clock import from_ms
from projections.nouns import observation as observations
from projections.nouns import session as sessions
from projections.nouns.batch import (
    FoldBatch,
    entry_of,
    fold_one,
    folds,
    further_parts,
    mark_of,
    session_and_ledger,
    session_of,
)
from projections.nouns.observation import Observation
from projections.nouns.session import Commit, Session, summary, summary_id
from projections.nouns.tombstone import LedgerEntry, Tombstone, ledger_id


@folds(
    ObservationRecorded,
    reads=lambda event, data: {observations.observation_id(event), *session_and_ledger(event)},
    follows=further_parts,
)
def _observed(batch: FoldBatch, event: Recorded, data: ObservationRecorded) -> None:
    name = observations.observation_id(event)
    session = session_of(event)
    match batch.get(name) or batch.ledgers.find(session, name):
        case None:
            batch.put(observations.observation(event, data, session))
            batch.put(sessions.observed(batch.session(event), event))
        case Observation(position=first) | Tombstone(position=first) | LedgerEntry(position=first):
            batch.erase_repeat(event, str(first), name)
        case _:
            pass


# A model's compression is void if the observation is forgotten (the compression quotes it) or retired (too late).
fold_one(
    ObservationCompressed,
    of=Observation,
    subject=lambda event, data: data.observation,
    evolve=lambda existing, event, data: existing and observations.compressed(existing, data),
    reads=session_and_ledger,
    follows=further_parts,
)
fold_one(
    SessionStarted,
    SessionEnded,
    of=Session,
    subject=lambda event, data: session_of(event),
    evolve=sessions.evolve,
    drops=True,
    reads=session_and_ledger,
    follows=further_parts,
)


@folds(
    SessionSummarised,
    reads=lambda event, data: {mark_of(event), summary_id(session_of(event)), *session_and_ledger(event)},
    follows=further_parts,
)
def _summarised(batch: FoldBatch, event: Recorded, data: SessionSummarised) -> None:
    """A summary made before something of the session was forgotten is void, and erased: it may quote that."""
    name = session_of(event)
    if not batch.mark(event, name):
        return
    session = batch.session(event)
    if session is None or data.forgotten_at not in (session.told_from, session.forgotten_at):
        batch.void(event)
        return
    # a summary without an agent is of several agents' observations
    agent = session.agent_id if event.envelope.agent_id else ""
    made = summary(event, data, name, agent, session.user_id)
    # summaries of earlier releases say when they were made; none is newer than its session
    batch.put(replace(made, occurred_at=min(made.occurred_at, from_ms(session.updated_ms))))
    batch.put(session.model_copy(update={"summarised": data.observation_count}))


@folds(
    SessionRetired,
    reads=lambda event, data: {*data.documents, *session_and_ledger(event), ledger_id(session_of(event), data.part)},
)
def _retired(batch: FoldBatch, event: Recorded, data: SessionRetired) -> None:
    """What it names leaves the documents for the session's ledger; what is missing or forgotten is skipped.

    It has no mark, and stays in the log for ever: a replay that did not retire would end elsewhere.
    """
    session = session_of(event)
    part = batch.ledgers.begin(session, data.part, event.envelope)
    observations = 0
    for name in data.documents:
        existing = batch.get(name)
        entry = entry_of(existing)
        if entry is not None and (entry.subject == session or entry.subject.partition("_")[0] == OBSERVATION):
            batch.ledgers.note(session, part, entry)
            batch.retire(entry.name)
            observations += isinstance(existing, Observation)
    existing = batch.session(event)
    if existing is not None:
        batch.put(sessions.retired(existing, event, observations, data.idle_since_ms))


fold_one(SessionCommitted, of=Commit, subject=sessions.commit_id, evolve=sessions.linked_commit)
