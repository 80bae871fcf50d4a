"""Made-up texts: the same number gives the same, and they are as varied as those of fleets."""

import json
import re
from collections import Counter

from benchmarks.corpus import LENGTH, mixed, observation, question, text
from ingest.secrets.scrub import scrub_text


def test_a_number_always_gives_the_same_text():
    """In another process, too: figures of two runs are of the same texts."""
    assert text(7).startswith("The buffer of search fails with SerializationFailure in middleware_lodafaga. It happens")
    assert mixed("run", 11) == mixed("run", 11)


def test_texts_differ_and_keep_bringing_new_words():
    """Caches of words and of vectors must not make a benchmark faster than life."""
    texts = [text(number) for number in range(2_000)]
    words = [set(re.findall(r"[a-z]+", one.lower())) for one in texts]
    first, second = set[str]().union(*words[:1_000]), set[str]().union(*words[1_000:])
    assert len(set(texts)) == len(texts)
    assert len(first) > 2_000
    assert len(second - first) > 1_000


def test_a_text_is_some_550_characters():
    lengths = [len(text(number)) for number in range(500)]
    assert min(lengths) >= LENGTH
    assert max(lengths) < LENGTH + 120
    assert len(json.dumps(observation("run", 1))) < 1_000


def test_no_text_is_altered_by_the_removal_of_secrets():
    """Else what was written could not be compared with what was found."""
    assert [number for number in range(500) if scrub_text(text(number)) != text(number)] == []


def test_a_question_names_what_the_beginning_of_its_text_names():
    for number in range(50):
        names = re.findall(r"\w*[_/-]\w+|[A-Z][a-z]+ (?:Ltd|AG|Labs|Group)", question(number))
        assert all(name in text(number) for name in names)


def test_of_twenty_mixed_events_one_is_of_each_kind_that_is_kept():
    kinds = Counter(mixed("run", number)["type"] for number in range(20))
    assert kinds == {"observe": 16, "remember": 1, "lesson": 1, "slot": 1, "action": 1}


def test_a_session_has_one_project_and_one_agent():
    events = [observation("run", number) for number in range(4_000)]
    places = {(event["session_id"], event["project"], event["agent_id"]) for event in events}
    assert len(places) == len({event["session_id"] for event in events})
