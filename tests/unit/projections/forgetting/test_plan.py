from projections.nouns.action import actions
from projections.nouns.document import PROJECT_LISTINGS
from projections.nouns.lesson import lessons
from projections.nouns.memory import memories
from projections.nouns.relation import relations
from projections.nouns.session import commits
from projections.nouns.slot import slots


def test_forgetting_a_project_looks_for_every_kind_of_document():
    """A session is listed across partitions, and its observations go with it."""
    listings = {listing("t", "p") for listing in (memories, lessons, slots, actions, relations, commits)}
    assert {listing("t", "p") for listing in PROJECT_LISTINGS} == listings
