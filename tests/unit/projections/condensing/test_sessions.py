"""A digest tells a session in its own words."""

import random

from condensing import asked, called, saw
from hypothesis import given
from hypothesis import strategies as st

from projections.condensing.summaries import (
    CONCEPTS,
    DECISIONS,
    FILES,
    REMAINING,
    SUMMARY_CHARS,
    TITLE_CHARS,
    continued,
    digest,
)

WORK = [
    asked(0, "Fix the flaky login test. It fails every third run."),
    called(1, "Read", {"file_path": "tests/test_login.py"}, "def test(): must never sleep"),
    called(2, "Bash", {"command": "pytest tests/test_login.py"}, error="AssertionError: token expired"),
    called(3, "Grep", {"pattern": "expires_in", "path": "src"}, "src/auth/token.py:3"),
    called(4, "Edit", {"file_path": "src/auth/token.py"}, "ok"),
    saw(5, "We decided to freeze the clock in `auth` tests. Sleeping in tests must never come back.", kind="decision"),
]
DIALOGUE = [
    saw(0, "ada: Hey Ben! How are you?", agent_id="ada"),
    saw(1, "ben: Hi Ada! Thanks, Ada!", agent_id="ben"),
    saw(2, "ada: I adopted a puppy from the animal shelter last week.", agent_id="ada"),
    saw(3, "ben: Wow, Ada! What is its name?", agent_id="ben"),
    saw(4, "ada: The shelter called the puppy Oscar, and we kept that name.", agent_id="ada"),
    saw(5, "ben: Our family chose an old dog at the same animal shelter.", agent_id="ben"),
]


def test_no_observations_give_no_digest():
    assert digest([]) is None


def test_a_session_of_work_is_told_by_what_was_wanted_what_was_done_and_what_failed():
    """Not by what was only looked at, nor by edits that the agent speaks of later; those are among its files."""
    told = digest(WORK)
    assert told is not None
    assert told.title == "Fix the flaky login test. It fails every third run."
    assert told.narrative == "Bash `pytest tests/test_login.py` failed: AssertionError: token expired."
    assert told.observation_count == 6


def test_what_decides_is_kept_and_what_a_tool_printed_is_not():
    told = digest(WORK)
    assert told is not None
    assert told.decisions == [
        "We decided to freeze the clock in `auth` tests.",
        "Sleeping in tests must never come back.",
    ]


def test_modified_files_come_first_and_search_patterns_not_at_all():
    told = digest(WORK)
    assert told is not None
    assert told.files == ["src/auth/token.py", "tests/test_login.py"]


def test_concepts_are_ordered_by_how_many_observations_have_them():
    told = digest([saw(0, "x", concepts=("Rare", "Common")), saw(1, "y", concepts=("common", "COMMON"))])
    assert told is not None
    assert told.concepts == ["common", "rare"]


def test_a_dialogue_is_told_by_its_content_and_names_the_speakers():
    told = digest(DIALOGUE)
    assert told is not None
    assert told.title == "Our family chose an old dog at the same animal shelter."
    assert "ada: I adopted a puppy from the animal shelter last week." in told.narrative
    assert "The shelter called the puppy Oscar, and we kept that name." in told.narrative


def test_figures_of_speech_decide_nothing():
    said = "That's not always easy. It must have hurt a lot. I will never forget that day."
    told = digest([saw(0, said)])
    assert told is not None
    assert told.decisions == []


def test_plain_decisions_go_before_rules_when_there_are_many():
    rules = [saw(n, f"Service number{n} must listen on port {n}000 only.") for n in range(DECISIONS)]
    told = digest([*rules, saw(99, "We agreed to release on Friday morning.")])
    assert told is not None
    assert told.decisions[-1] == "We agreed to release on Friday morning."
    assert len(told.decisions) == DECISIONS


def test_a_repeated_error_is_told_once():
    failures = [called(n, "Bash", {"command": "make"}, error="no rule to make target") for n in range(9)]
    told = digest(failures)
    assert told is not None
    assert told.narrative == "Bash `make` failed: no rule to make target."


def test_what_a_user_said_behind_the_title_is_told_from_its_own_beginning():
    told = digest(WORK, title="Fix the flaky login test")
    assert told is not None
    assert told.narrative.startswith("User: It fails every third run.")


def test_a_title_that_ends_within_a_word_of_what_a_user_said_takes_nothing_of_it():
    told = digest(WORK, title="Fix the flaky log")
    assert told is not None
    assert told.narrative.startswith("User: Fix the flaky login test.")


def test_a_given_title_wins_and_is_shortened():
    told = digest(WORK, title=" A title " + "that goes on " * 9)
    assert told is not None
    assert told.title.startswith("A title that")
    assert len(told.title) <= TITLE_CHARS


def test_the_order_of_the_input_does_not_matter():
    shuffled = random.Random(7).sample(WORK, len(WORK))
    assert digest(shuffled) == digest(WORK)


@given(st.lists(st.text(max_size=600), min_size=1, max_size=12))
def test_a_digest_stays_within_its_limits(contents: list[str]):
    told = digest([saw(n, content) for n, content in enumerate(contents)])
    assert told is not None
    assert told.title
    assert len(told.title) <= TITLE_CHARS
    # a full stop and a speaker's name more, for each sentence
    assert len(told.narrative) <= 2 * SUMMARY_CHARS
    assert len(told.decisions) <= DECISIONS
    assert len(told.remaining) <= REMAINING
    assert len(told.files) <= FILES
    assert len(told.concepts) <= CONCEPTS


def test_long_sentences_are_cut_and_told_as_far_as_they_fit():
    told = digest([saw(n, f"Marker{n} " + f"w{n}abc " * 200) for n in range(20)])
    assert told is not None
    assert 1 < told.narrative.count("Marker") <= SUMMARY_CHARS // 100


def test_the_agents_closing_words_and_what_remains_are_told():
    told = digest([
        asked(0, "The checkout charges some customers twice. Please fix it."),
        called(1, "Read", {"file_path": "checkout.py"}, "def charge(order): ..."),
        called(2, "Bash", {"command": "pytest -k double_click"}, "1 failed, 12 passed"),
        called(3, "Edit", {"file_path": "checkout.py"}, "ok"),
        saw(4, "Fixed the double charge: calls carry the order id as idempotency key, because the gateway retries."
            " Remaining: the refund path still needs the same key.", kind="message"),
    ])  # fmt: skip
    assert told is not None
    assert told.title == "The checkout charges some customers twice. Please fix it."
    assert told.decisions == [
        "Fixed the double charge: calls carry the order id as idempotency key, because the gateway retries."
    ]
    assert told.remaining == ["Remaining: the refund path still needs the same key."]
    assert "1 failed, 12 passed" in told.narrative
    assert "def charge" not in told.narrative


def test_calls_are_told_behind_the_words_in_which_the_agent_sums_up_what_came_of_them():
    edits = [called(n, "Edit", {"file_path": f"src/module_{n}.py"}, "ok") for n in range(1, 12)]
    closing = "The pipeline is green on Python 3.12: 312 tests pass and 2 are skipped, those of the PDF export."
    told = digest([asked(0, "Move our CI to Python 3.12."), *edits, saw(12, closing, kind="message")])
    assert told is not None
    assert closing in told.narrative


def test_a_conversation_that_a_hook_reports_has_a_user_and_an_agent():
    told = digest([called(0, "conversation", "Why is the cart wrong?", "Each line is rounded. Fixed in cart.py.")])
    assert told is not None
    assert (told.title, told.narrative) == ("Why is the cart wrong?", "Each line is rounded. Fixed in cart.py.")


def test_nothing_is_said_twice():
    told = digest(WORK)
    assert told is not None
    said = [told.title, *told.decisions, *told.remaining]
    assert not any(one.rstrip(".") in told.narrative for one in said)


def test_what_tools_told_is_listed_and_is_neither_title_nor_decision():
    output = "1 failed: we decided that the vault stays open and must never be closed"
    made = digest([called(1, "Bash", {"command": "make"}, output), saw(2, "We decided that the gate is blue.")])
    assert made is not None
    assert made.title == "We decided that the gate is blue."
    assert "vault" not in " ".join([*made.decisions, *made.remaining])
    assert made.told_by_tools == [made.narrative]
    assert "vault" in made.narrative
    assert made.trust == "agent_concluded"
    again = continued(made, made, 4)
    assert (again.trust, set(again.told_by_tools)) == (made.trust, set(made.told_by_tools))
