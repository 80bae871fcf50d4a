"""A digest tells a session in its own words."""

import random

import pytest
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


PASTED = "=== FAIL: pkg/store TestLoad (0.00s)\n    store_test.go:23: got 3, want 4\n"


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        # small talk, follow-ups and what the host writes are no request
        (["Hi!", "go on", "Rename the table receipts to invoices."], "Rename the table receipts to invoices."),
        (["<system-reminder>Use todos.</system-reminder>\nBuild the image for arm64."], "Build the image for arm64."),
        (["[Request interrupted by user]", "Why is the nightly build red?"], "Why is the nightly build red?"),
        (["<command-name>/exit</command-name>", "Bump Go to 1.25 everywhere."], "Bump Go to 1.25 everywhere."),
        (
            ["<command-name>/review</command-name><command-args>154</command-args>", "Rename the flag to --local."],
            "/review 154. Rename the flag to --local.",
        ),
        # neither is what was pasted
        ([PASTED, "Fix the failing test of the store."], "Fix the failing test of the store."),
        # a request has its reason, and what is asked beside it
        (
            ["The terminal times out on slow links, we wait only 8 seconds. Raise it to 20. The others are fine."],
            "The terminal times out on slow links, we wait only 8 seconds. Raise it to 20.",
        ),
        (
            [f"The code {'was here and ' * 16} moved. We need to publish from this repository instead."],
            f"The code {'was here and ' * 7}was here… We need to publish from this repository instead.",
        ),
        # little is told by a later request
        (
            ["Hey! I need to cancel a flight.", "My id is mo_1.", "I want to cancel the one to Boston on May 17."],
            "I need to cancel a flight. I want to cancel the one to Boston on May 17.",
        ),
        (["把终端的超时改成20秒。谢谢！"], "把终端的超时改成20秒。"),
    ],
)  # fmt: skip
def test_a_title_says_what_the_user_wanted(prompts: list[str], title: str):
    told = digest([*(asked(n, prompt) for n, prompt in enumerate(prompts)), saw(99, "Done: the pool is 20 now.")])
    assert told is not None
    assert told.title == title


def test_modified_files_come_first_and_search_patterns_not_at_all():
    told = digest(WORK)
    assert told is not None
    assert told.files == ["src/auth/token.py", "tests/test_login.py"]


def test_concepts_are_ordered_by_how_many_observations_have_them():
    told = digest([saw(0, "x", concepts=("Rare", "Common")), saw(1, "y", concepts=("common", "COMMON"))])
    assert told is not None
    assert told.concepts == ["common", "rare"]


def test_chat_title_has_a_fact_of_each_speaker_and_narrative_has_the_others():
    made = digest(DIALOGUE)
    assert made is not None
    assert made.title == (
        "ada: I adopted a puppy from the animal shelter last week."
        " ben: Our family chose an old dog at the same animal shelter."
    )
    assert made.narrative == "ada: The shelter called the puppy Oscar, and we kept that name."


CHAT = [
    saw(0, "vera: Hey Milo! Long time no talk! How have you been?", agent_id="vera"),
    saw(1, "milo: Hi Vera! Since we last talked, I sold the bakery on Mill Street. It feels so good!", agent_id="milo"),
    saw(2, "vera: Wow, Milo! You must be so relieved. I'm really proud of you!", agent_id="vera"),
    saw(3, "milo: Thanks, Vera! Your support means the world to me. Keep believing in your dreams!", agent_id="milo"),
    saw(4, "vera: I'm moving to Lisbon in October, the museum there hired me as a restorer.", agent_id="vera"),
    saw(5, "milo: That's amazing! Life is about taking chances. [shares a photo of a red tram]", agent_id="milo"),
    saw(6, "vera: We're going to rent a flat near the river with my cousin Inês.", agent_id="vera"),
    saw(7, "milo: Sounds great! Can't wait to visit. There's still so much to do before that!", agent_id="milo"),
    saw(8, "vera: I will do that, and so will you.", agent_id="vera"),
]


def test_chat_summary_leaves_out_small_talk():
    made = digest(CHAT)
    assert made is not None
    assert made.title == (
        "milo: I sold the bakery on Mill Street."
        " vera: I'm moving to Lisbon in October, the museum there hired me as a restorer."
    )
    assert made.narrative == "vera: We're going to rent a flat near the river with my cousin Inês."
    assert made.remaining == []


def test_chat_facts_that_do_not_fit_into_a_title_are_cut():
    long = " and then to the old harbor of Valparaíso" * 4
    made = digest([saw(n, f"I sailed with my aunt {who}{long}.", agent_id=who) for n, who in enumerate(("Ana", "Olu"))])
    assert made is not None
    assert len(made.title) <= TITLE_CHARS
    assert made.title.count("…") == 2
    assert "Olu: I sailed with my aunt Olu" in made.title


def test_chat_of_only_small_talk_still_has_a_title():
    made = digest(
        [saw(0, "Hello, how are you today?", agent_id="vera"), saw(1, "So good to see you!", agent_id="milo")]
    )
    assert made is not None
    assert made.title


def test_session_with_a_tool_call_is_no_chat():
    made = digest([*CHAT, called(9, "Bash", {"command": "make"}, "1 failed")])
    assert made is not None
    assert not made.title.startswith("milo: ")


def test_summary_of_an_assistant_chat_leaves_out_praise():
    made = digest([
        asked(0, "Which visa do I need to work in Norway for half a year?"),
        saw(1, "You are absolutely right to ask! A seasonal work permit allows six months in Norway.", kind="message"),
        asked(2, "My employer is a fish farm in Bergen."),
        saw(3, "That's wonderful news! Fish farms count as seasonal employers.", kind="message"),
    ])  # fmt: skip
    assert made is not None
    assert made.title == "Which visa do I need to work in Norway for half a year?"
    assert "A seasonal work permit allows six months in Norway." in made.narrative
    assert "absolutely" not in made.narrative
    assert "wonderful" not in made.narrative


def test_figures_of_speech_decide_nothing():
    said = "That's not always easy. It must have hurt a lot. I will never forget that day."
    told = digest([saw(0, said)])
    assert told is not None
    assert told.decisions == []


def test_the_newest_decisions_are_kept_when_there_are_many():
    rules = [saw(n, f"We decided that service{n} listens on port {n}000.") for n in range(DECISIONS)]
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
    assert told.narrative.endswith(" User: It fails every third run.")


def test_a_title_that_ends_within_a_word_of_what_a_user_said_takes_nothing_of_it():
    told = digest(WORK, title="Fix the flaky log")
    assert told is not None
    assert " User: Fix the flaky login test. It fails" in told.narrative


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
    assert "Fixed the double charge: calls carry the order id as idempotency key, because" in told.narrative
    assert told.remaining == ["Remaining: the refund path still needs the same key."]
    assert "1 failed, 12 passed" in told.narrative
    assert "def charge" not in told.narrative


def test_the_agents_last_words_come_first_then_test_runs_then_what_else_the_user_said():
    told = digest([
        asked(0, "Raise the timeout of the terminals to 20 s. I am in a hurry because the pilot starts on Thursday."),
        called(1, "Bash", {"command": "pytest tests/x"}, "FAILED tests/a.py::test_a - assert 8 == 20\n1 failed"),
        saw(2, "The read timeout is now 20 s, and all tests of the terminals pass.", kind="message"),
    ])  # fmt: skip
    assert told is not None
    assert told.title == "Raise the timeout of the terminals to 20 s."
    assert told.narrative == (
        "The read timeout is now 20 s, and all tests of the terminals pass."
        " Bash `pytest tests/x`: 1 failed: tests/a.py::test_a: assert 8 == 20."
        " User: I am in a hurry because the pilot starts on Thursday."
    )


def test_neither_small_talk_nor_notifications_fill_a_summary():
    told = digest([
        asked(0, "Hi there! Cancel reservation SI5UKW, please."),
        saw(1, "I'm sorry, but basic economy tickets cannot be canceled after 24 hours.", kind="message"),
        saw(2, data={"message": "Claude is waiting for your input"}, kind="notification"),
        saw(3, "Safe travels! Have a wonderful day!", kind="message"),
    ])  # fmt: skip
    assert told is not None
    assert told.title == "Cancel reservation SI5UKW, please."
    assert told.narrative == "Basic economy tickets cannot be canceled after 24 hours."


def test_what_says_little_does_not_fill_the_room_that_is_left():
    said = [
        saw(n, f"The refund of booking {n} was processed because rule {n} of chapter {n} allows it.") for n in range(5)
    ]
    rows = [saw(n, f"Arrival: {n}:30 PM at gate {n}.") for n in range(10, 40)]
    told = digest([asked(0, "Refund all of my bookings."), *said, *rows])
    assert told is not None
    assert len(told.narrative) + sum(map(len, told.decisions)) < SUMMARY_CHARS * 0.9


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


def test_a_call_is_a_tools_words_where_it_says_how_it_went_whatever_that_ends_with():
    said = "1 failed: reviews of it are skipped by the `release`"
    made = digest([called(1, "Bash", {"command": "make"}, said), saw(2, "The gate of the garden is painted blue.")])
    assert made is not None
    assert "skipped" in made.narrative
    assert all("skipped" not in text for text in (made.title, *made.decisions, *made.remaining))
    assert [text for text in made.told_by_tools if "skipped" in text]
