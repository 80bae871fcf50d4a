from projections.forgetting.plan import KINDS, OF_A_PROJECT
from projections.nouns.observation import Observation
from projections.nouns.session import Session
from projections.nouns.tombstone import SupersededEvent


def test_forgetting_a_project_looks_for_every_kind_of_document():
    """A session is listed across partitions, and its observations go with it."""
    assert set(OF_A_PROJECT) == {*KINDS, SupersededEvent} - {Session, Observation}
