"""Sessions: started, ended, summarised, retired; the observations recorded and the commits made in them."""

from typing import cast

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
from projections.documents import observations, sessions
from projections.documents.observations import Observation
from projections.documents.sessions import Commit, summary, summary_id
from projections.documents.tombstones import LedgerEntry, Tombstone, ledger_id
from projections.folds.batch import FoldBatch, folds, mark_of, reading, session_of
from projections.folds.ledgers import entry_of, first_part, further_parts

_further = further_parts(session_of)


def _observed_reads(event: Recorded) -> set[str]:
    session = session_of(event)
    return {observations.observation_id(event), session, ledger_id(session)}


@folds(ObservationRecorded, reads=_observed_reads, follows=_further)
def _observed(batch: FoldBatch, event: Recorded) -> None:
    data = cast(ObservationRecorded, event.data)
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


def _compressed_subject(event: Recorded) -> str:
    return cast(ObservationCompressed, event.data).observation


@folds(ObservationCompressed, reads=reading(_compressed_subject, mark_of, first_part(session_of)), follows=_further)
def _compressed(batch: FoldBatch, event: Recorded) -> None:
    """Void if the observation is forgotten (so is what a model made of it) or retired (too late)."""
    data = cast(ObservationCompressed, event.data)
    if not batch.mark(event, data.observation):
        return
    match batch.get(data.observation):
        case Observation() as existing:
            batch.put(observations.compressed(existing, data))
        case _:
            batch.void(event)


_ledger = first_part(session_of)


@folds(SessionStarted, SessionEnded, reads=reading(mark_of, session_of, _ledger), follows=_further)
def _changed(batch: FoldBatch, event: Recorded) -> None:
    if batch.mark(event, session_of(event)):
        session = sessions.evolve(batch.session(event), event)
        if session is not None:
            batch.put(session)


def _summary(event: Recorded) -> str:
    return summary_id(session_of(event))


@folds(SessionSummarised, reads=reading(mark_of, session_of, _summary, _ledger), follows=_further)
def _summarised(batch: FoldBatch, event: Recorded) -> None:
    """A summary made before something of the session was forgotten is void, and erased: it may say what was."""
    data = cast(SessionSummarised, event.data)
    name = session_of(event)
    if not batch.mark(event, name):
        return
    session = batch.session(event)
    if session is None or data.forgotten_at not in (session.told_from, session.forgotten_at):
        batch.void(event)
        return
    agent = session.agent_id if event.envelope.agent_id else ""  # told by nobody: of several agents' observations
    batch.put(summary(event, data, name, agent, session.user_id))
    batch.put(session.model_copy(update={"summarised": data.observation_count}))


def _retired_reads(event: Recorded) -> set[str]:
    data, session = cast(SessionRetired, event.data), session_of(event)
    return {*data.documents, session, ledger_id(session), ledger_id(session, data.part)}


@folds(SessionRetired, reads=_retired_reads)
def _retired(batch: FoldBatch, event: Recorded) -> None:
    """What it names leaves the documents for the session's ledger; what is missing or forgotten is skipped.

    It has no mark, and stays in the log for ever: a replay that did not retire would end elsewhere.
    """
    data, session = cast(SessionRetired, event.data), session_of(event)
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


def _commit(event: Recorded) -> str:
    return sessions.commit_id(event, cast(SessionCommitted, event.data))


@folds(SessionCommitted, reads=reading(mark_of, _commit))
def _committed(batch: FoldBatch, event: Recorded) -> None:
    data = cast(SessionCommitted, event.data)
    name = sessions.commit_id(event, data)
    if batch.mark(event, name):
        existing = batch.get(name)
        batch.put(sessions.linked_commit(existing if isinstance(existing, Commit) else None, event, data))
