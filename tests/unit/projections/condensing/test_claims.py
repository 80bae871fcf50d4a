"""What may be derived from: sentences that somebody said, and topics."""

import pytest
from condensing import called, saw

from projections.condensing.claims import Claim, claim_groups, is_claim, is_sentence, is_topic, mentions, names_of


@pytest.mark.parametrize(
    "text",
    [
        "Redis restarts break the pool.",
        "A pool needs retries.",
        "Always rotate before the deploy window.",
        "TimeoutError: the connection pool of the checkout service is exhausted.",
        "Bash `make` failed: no rule to make target",
        "Never run job1 on host2.",
        "Der Build braucht das neue Node und nicht das alte.",
        "这个服务必须重启才能生效",
    ],
)
def test_what_somebody_said_is_a_sentence(text: str):
    assert is_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Edit `src/pool.py`.",
        "src/pool.py",
        "Authentication module overview document",
        "return self.value + other",
        "from z3 import *",
        "298: # May be Pixel Data, Float Pixel Data",
        "--- a/pydicom/numpy_handler.py",
        "'BitsAllocated', 'Rows', 'Columns', 'SamplesPerPixel'",
        '"Unable to convert the pixel data as the following required "',
        "**Payment Method:** Credit Card ending in 5018",
        "Departure: 07:00 PM EST on May 20",
        "Arrival: 03:00 AM EST (next day)",
        "name: shop, status: is open, count: 3",
        "required_elements.append('PixelRepresentation') is done",
        "The steps that are needed are these:",
    ],
)
def test_code_output_labels_and_bare_calls_are_no_sentences(text: str):
    assert not is_sentence(text)


@pytest.mark.parametrize("text", ["Next, I will open the file.", "My order is late.", "Let's run the tests again."])
def test_what_holds_for_a_moment_or_a_speaker_is_no_claim(text: str):
    assert is_sentence(text)
    assert not is_claim(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The deploy token expires every night.", "The deploy token expires each night.", True),
        ("Redis loses entries on a restart.", "On a restart redis loses entries.", True),
        ("The backup takes two hours.", "The backup takes three hours.", False),
        ("The lease must be shared.", "The lease must not be shared.", False),
        ("The pool size is 50.", "The pool size is 60.", False),
        ("The backup takes long on Friday.", "The backup takes long on Monday.", False),
        ("The backup takes long.", "The backup takes long on Monday.", True),
    ],
)
def test_two_texts_claim_the_same_unless_one_denies_or_names_another_thing(one: str, other: str, same: bool):
    assert Claim.of(one).is_said_by(Claim.of(other), 0.6) is same
    assert (len(claim_groups([one, other], 0.6)) == 1) is same


def test_names_of_tools_and_keys_are_no_topics():
    seen = [called(0, "Bash", {"old_string": "x"}, output='{"exitCode": 1}'), saw(1, '{"stderr_lines": ["a"]}')]
    names = names_of(seen)
    assert names >= {"bash", "old_string", "exitcode", "stderr_lines"}
    assert not any(is_topic(name, names) for name in ("bash", "old_string", "exitcode", "stderr_lines"))
    assert is_topic("redis", names)


@pytest.mark.parametrize("topic", ["", "c", "fact", "crystal", "consolidated", "procedure", "a/b", "pool.py", "12.5"])
def test_tags_of_the_server_and_paths_are_no_topics(topic: str):
    assert not is_topic(topic)


def test_a_topic_is_mentioned_as_words_of_their_own():
    assert mentions("The Redis-host is gone.", "redis")
    assert not mentions("The redistribution is gone.", "redis")
