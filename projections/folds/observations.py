"""Observations: recorded once, compressed by the rules, later perhaps by a model."""

from typing import cast

from ingest.events.envelope import Recorded
from ingest.events.session import ObservationCompressed, ObservationRecorded
from projections.documents import observations, sessions
from projections.documents.ledgers import Entry, ledger_id
from projections.documents.observations import Observation
from projections.documents.tombstones import Tombstone
from projections.folds.batch import Batch, folds, mark_of, reading, session_of
from projections.folds.ledgers import first_part, further_parts

_further = further_parts(session_of)


def _recorded_reads(event: Recorded) -> set[str]:
    session = session_of(event)
    return {observations.observation_id(event), session, ledger_id(session)}


@folds(ObservationRecorded, reads=_recorded_reads, follows=_further)
def _recorded(batch: Batch, event: Recorded) -> None:
    data = cast(ObservationRecorded, event.data)
    name = observations.observation_id(event)
    session = session_of(event)
    match batch.get(name) or batch.ledgers.find(session, name):
        case None:
            batch.put(observations.observation(event, data, session))
            batch.put(sessions.observed(batch.session(event), event))
        case Observation(position=first) | Tombstone(position=first) | Entry(position=first):
            batch.erase_repeat(event, str(first), name)
        case _:
            pass


def _compressed_subject(event: Recorded) -> str:
    return cast(ObservationCompressed, event.data).observation


@folds(ObservationCompressed, reads=reading(_compressed_subject, mark_of, first_part(session_of)), follows=_further)
def _compressed(batch: Batch, event: Recorded) -> None:
    """What a model made of an observation that is forgotten is forgotten, too; of a retired one it comes too late."""
    data = cast(ObservationCompressed, event.data)
    if not batch.mark(event, data.observation):
        return
    match batch.get(data.observation):
        case Observation() as known:
            batch.put(observations.compressed(known, data))
        case _:
            batch.void(event)
