from api.dialects.agentmemory.maintenance import WORDS
from ingest.nouns.registry import EVENT_TYPES


def test_every_event_has_a_word_of_its_own_but_the_stub_of_an_erased_one():
    assert set(WORDS) == {*EVENT_TYPES} - {"event.erased"}
    assert len(set(WORDS.values())) == len(WORDS)
