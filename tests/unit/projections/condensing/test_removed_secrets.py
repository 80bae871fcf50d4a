"""The mark of a removed secret is neither a title nor a statement, and no cut leaves a part of a secret."""

import pytest
from condensing import asked, saw
from factories import NOW, remembered

from api.dialects.agent_memory.answers import default_title
from api.importing.sessions import summarised
from ingest.commands.decide import SummariseSession
from ingest.nouns.memory import MemoryRecorded
from ingest.secrets.scrub import PRIVATE, SECRET
from projections.condensing.summaries import digest
from projections.nouns.index_entry import index_terms
from projections.nouns.memory import memory
from projections.text.accounts import headline
from projections.text.compression import compress
from projections.text.sentences import stated, statements

MARKS = (SECRET, PRIVATE, f"{SECRET}.", f"- {SECRET}; {PRIVATE}.")
SAID = "The queue of the importer is bounded now."


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_alone_is_no_title(mark: str):
    text = f"{mark}\n{SAID}"
    told = digest([saw(0, text), saw(1, "We keep the old importer for a week.")])
    assert told is not None
    assert SECRET not in told.title
    assert PRIVATE not in told.title
    assert compress("note", text).title == SAID
    assert headline(saw(0, text)) == SAID
    recorded = remembered(0, text)
    assert isinstance(recorded.data, MemoryRecorded)
    assert memory(recorded, recorded.data).title == SAID


@pytest.mark.parametrize("mark", MARKS)
def test_a_session_that_says_nothing_else_is_titled_by_none_of_it(mark: str):
    told = digest([asked(0, mark)], title=mark)
    assert told is not None
    assert told.title == "session"
    assert compress("note", mark).title == "note"


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_neither_a_concept_nor_a_word(mark: str):
    text = f"The bounded_queue uses {mark} now."
    assert compress("note", text).concepts == ("bounded_queue",)
    assert not {"redact", "secret", "redacted_secret"}.intersection(index_terms(text, NOW).split())
    recorded = remembered(0, text, concepts=[mark, "queue"])
    assert isinstance(recorded.data, MemoryRecorded)
    assert memory(recorded, recorded.data).index_entry().concepts == ["queue"]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_alone_states_nothing(mark: str):
    assert statements(f"{mark}\n{SAID}") == [SAID]
    assert stated(f"{mark}\n{SAID}") == [SAID]


def test_a_title_is_cut_after_its_secrets_are_removed():
    for length in range(40, 120):
        text = f"{'x' * length} ghp_{'aZ9' * 12}"
        assert "aZ9" not in default_title(text)
        step = summarised("memex", "shop", "s", NOW, title=text, narrative="", observations=1)
        assert isinstance(step.command, SummariseSession)
        assert "aZ9" not in step.command.title
