from projections.documents.observations import Observation
from projections.documents.sessions import Session
from projections.documents.tombstones import SupersededEvent
from projections.forgetting.plan import KINDS, OF_A_PROJECT


def test_forgetting_a_project_looks_for_every_kind_of_document():
    """A session is listed across partitions, and its observations go with it."""
    assert set(OF_A_PROJECT) == {*KINDS, SupersededEvent} - {Session, Observation}
