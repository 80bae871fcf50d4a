"""Several documents about one concept amount to something."""

import pytest
from condensing import asked, called, saw
from msgspec.structs import replace

from ingest.ids import DocumentId
from projections.condensing.insights import INSIGHTS, PER_CLUSTER, SUGGESTED, Item, insights, suggestions
from projections.nouns.observation import Observation


def item(n: int, text: str, *concepts: str, confidence: float = 0.5, origin: str = "") -> Item:
    return Item(f"mem_{n}", list(concepts), text, confidence, origin)


TOKENS = [
    item(1, "The deploy token expires every night. Lunch is at noon.", "Token", "deploy", confidence=0.4),
    item(2, "The deploy token expires each night.", "token", "deploy", confidence=0.6),
    item(3, "Rotating the deploy token before the window avoids failures.", "token"),
]


def test_a_cluster_gives_what_recurs():
    (recurring,) = insights(TOKENS)
    assert recurring.content == "The deploy token expires every night."
    assert recurring.sources == ["mem_1", "mem_2"]
    assert recurring.confidence == 0.64


def test_cluster_in_which_nothing_recurs_gives_no_insight():
    assert insights([TOKENS[0], TOKENS[2], item(4, "A new token is valid for one day.", "token")]) == []


def test_figure_of_one_run_is_no_insight():
    counted = "The nightly export wrote 41,200 rows in 12 minutes."
    assert insights([item(n, counted, "export") for n in range(3)]) == []
    assert insights([item(n, counted) for n in range(3)]) == []
    (insight,) = insights([item(n, "The nightly export has at most 50,000 rows.", "export") for n in range(3)])
    assert insight.sources == ["mem_0", "mem_1", "mem_2"]


def test_number_that_differs_in_each_session_makes_no_insight():
    assert (
        insights([item(n, f"The nightly export of orders takes {30 + n} minutes.", origin=f"s{n}") for n in range(4)])
        == []
    )
    assert insights([item(n, "The nightly export of orders takes 30 minutes.", origin=f"s{n}") for n in range(4)])


def test_claim_that_was_replaced_makes_no_insight():
    token = "The deploy token expires every night."
    assert insights(TOKENS, without={token, "The deploy token expires each night."}) == []


def test_an_insight_has_no_tag_that_is_a_tool_a_key_or_a_path():
    said = [item(n, "The deploy token expires every night.", "token", "Edit", "file_path", "a.py") for n in range(3)]
    assert insights(said)[0].concepts == ["token"]


def test_what_one_session_says_often_is_no_insight():
    said = [item(n, "The deploy token expires every night.", "token", origin="s1") for n in range(5)]
    assert insights(said) == []
    assert (
        insights([*said, item(9, "The deploy token expires every night.", "token", origin="s2")])[0].confidence == 0.55
    )


@pytest.mark.parametrize(
    "tag",
    ["fact", "consolidated", "crystal", "procedure", "src/pool.py", "Edit", "file_path", "created_at", "PoolError"],
)
def test_tags_of_the_server_tools_keys_paths_and_code_make_no_cluster(tag: str):
    assert insights([item(n, "The deploy token expires every night.", tag) for n in range(4)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "Edit `.../exceptions.py`.",
        "Bash",
        "src/app/exceptions.py",
        "tool_response_preview",
        "Authentication module overview document",
        "Next, I will open the file with the exceptions.",
        "0 0 0 0 0 0 --:--:-- --:--:--",
        "Bash `pytest -q`: exceptions failed",
        "It is about exceptions.",
    ],
)
def test_what_is_no_statement_is_no_insight(text: str):
    assert insights([item(n, text, "exceptions") for n in range(5)]) == []


def test_items_that_contradict_each_other_do_not_agree():
    said = ["The lease must be shared by workers.", "The lease must not be shared by workers."]
    found = insights([item(n, said[n % 2], "lease", origin=f"s{n % 2}") for n in range(4)])
    assert not any(
        len({*one.sources} & {"mem_0", "mem_2"}) and len({*one.sources} & {"mem_1", "mem_3"}) for one in found
    )


def test_what_is_said_of_a_thing_by_one_each_is_not_agreed():
    said = ["The cache is cleared by a deploy.", "The cache is filled by a deploy.", "A cache lasts a day."]
    found = insights([item(n, text, "cache", origin=f"s{n}") for n, text in enumerate(said)])
    assert found == []


def test_nearly_the_same_conclusion_of_two_clusters_is_one_insight():
    said = [item(n, "The deploy token expires every night.", "token") for n in range(3)]
    said += [item(n, "Every night the deploy token expires there.", "deploy") for n in range(3, 6)]
    assert len(insights(said)) == 1


def test_two_items_are_no_cluster():
    assert insights(TOKENS[:2]) == []


def test_the_same_conclusion_of_two_clusters_is_one_insight():
    both = [item(n, "The deploy token expires every night.", "token", "deploy") for n in range(3)]
    contents = [insight.content for insight in insights(both)]
    assert contents == ["The deploy token expires every night."]


def test_clusters_are_the_largest_and_insights_bounded():
    many = [
        item(n, " ".join(f"Service{part} needs worker{part} on host{part}." for part in range(8)), f"c{n % 20}", "all")
        for n in range(80)
    ]
    (first, *_) = insights(many, max_clusters=1)
    assert first.concepts[0] == "all"
    assert len(insights(many, max_clusters=1)) == PER_CLUSTER
    assert len(insights(many, max_clusters=20)) <= INSIGHTS


def test_items_without_statements_give_nothing():
    assert insights([item(n, "Ok.", "token") for n in range(3)]) == []


RETRIES = (
    "The checkout retries a payment twice, so the gateway charged the card twice.",
    "The gateway charged a card twice after the checkout retried the payment.",
    "Cards are charged twice when the checkout retries the payment at the gateway.",
    "A retried payment of the checkout was charged twice by the gateway.",
    "The checkout must not retry a payment: the gateway charges it twice.",
)


def test_what_several_sessions_tell_in_words_of_their_own_is_one_insight():
    said = [item(n, text, origin=f"s{n}") for n, text in enumerate(RETRIES)]
    (insight,) = insights(said)
    assert insight.content in RETRIES
    assert set(insight.sources) == {f"mem_{n}" for n in range(5)}
    assert insight.confidence == 0.672
    assert insights(said[:2]) == []
    assert insights([item(n, text, origin="s1") for n, text in enumerate(RETRIES)]) == []


# lessons that failures suggest

TEST = {"command": "uv run pytest tests/test_login.py -q"}
FAILED = "E   AssertionError: token expired\nFAILED tests/test_login.py::test_token - AssertionError\n1 failed in 0.2s"
CAUSE = "The login test failed because the clock ran on and the token expired."
OTHER = "The token expired, so the login test freezes the clock now."
FIX = "The clock is frozen in conftest.py now."


def session(*texts: str, failed: str = FAILED, passed: str = "3 passed in 0.1s") -> list[Observation]:
    """A test that fails, an edit, a test that passes, and what an agent says at the end."""
    return [
        asked(0, "add a test for the login"),
        called(1, "Bash", TEST, failed),
        called(2, "Edit", {"file_path": "tests/conftest.py"}),
        called(3, "Bash", TEST, passed),
        *(saw(4 + n, text, "conversation") for n, text in enumerate(texts)),
    ]


def test_a_failure_its_cause_and_its_fix_suggest_a_lesson_with_their_evidence():
    (lesson,) = suggestions(session(f"{CAUSE} {FIX} Left: the logout."))
    assert (lesson.content, lesson.confidence) == (f"{CAUSE} {FIX}", 0.3)
    assert lesson.sources == ["obs_1", "obs_2", "obs_3", "obs_4"]


@pytest.mark.parametrize(
    ("observations", "contents"),
    [
        (session(f"{CAUSE} I fixed it by freezing the clock."), [f"{CAUSE} I fixed it by freezing the clock."]),
        (session(f"{OTHER} Done."), [OTHER]),
        (session(f"{CAUSE} {FIX}", passed=FAILED), []),  # not fixed
        (session(f"{CAUSE} {FIX}", failed="3 passed"), []),  # nothing failed
        (session(CAUSE), []),  # no fix
        (session(f"{CAUSE} All tests pass now."), []),
        (session(f"{CAUSE} Added a test for the logout."), []),
        (session("The token expired, so the next login test gets an error now."), []),  # an effect
        (session(f"{CAUSE} The logout is fine. We pinned it to Monday."), []),  # pinned what?
        (session(f"Since the clock runs on, the login tests of the token reach it; its port changed. {FIX}"), []),
        (session(f"The login test failed because the logout does the same. {FIX}"), []),
        (session("The token can expire in the login test, so we must freeze its clock first."),
         ["The token can expire in the login test, so we must freeze its clock first."]),
        (session("The login test failed because the clock ran on. It is frozen in conftest.py now."),
         ["The login test failed because the clock ran on. It is frozen in conftest.py now."]),
        (session("Looking at the login test, the token has 40 letters, so one of them is used. Removed the menu."), []),
        (session(f"The login test passes now. {FIX}"), []),  # no cause
        (session(f"The menu is blue because Kim likes blue. {FIX}"), []),  # about something else
        (session(f"The token probably expired because the clock ran on. {FIX}"), []),  # a guess
        (session("Left: the token of the login expires early because the clock runs on."), []),  # not fixed
        (session(f"This is because the token expired. {FIX}"), []),  # nobody knows what
        ([*session()[1:4], asked(5, f"{CAUSE} {FIX}")], []),  # said by a user
        ([*session(), saw(5, f"{CAUSE} {FIX}", "conversation", trust="imported")], []),
        ([*session(), saw(5, f"{CAUSE} {FIX}", "conversation", quarantined="operator")], []),
        ([asked(0, "the nightly export crashed, look why"),
          saw(1, "The nightly export crashed because the disk was full.", "conversation"),
          called(2, "Bash", {"command": "sed -i s/30/7/ keep.env && make export"}, "done"),
          saw(3, "Only seven days are kept now.", "conversation")],
         ["The nightly export crashed because the disk was full. Only seven days are kept now."]),
    ],
)  # fmt: skip
def test_only_what_an_agent_says_of_something_that_was_fixed_is_a_lesson(
    observations: list[Observation], contents: list[str]
):
    assert [lesson.content for lesson in suggestions(observations)] == contents


def test_a_session_suggests_at_most_two_lessons_the_plainest_first():
    more = [f"The token of test number {n} expired, so the login test freezes its clock now." for n in range(4)]
    made = suggestions(session(" ".join([*more, CAUSE, FIX])))
    assert len(made) == SUGGESTED
    assert made[0].content.startswith(CAUSE)


def test_a_failure_of_one_session_that_another_fixes_suggests_a_lesson():
    first, second = session(CAUSE), session(FIX)
    parted = [*first[:2], first[4], *(replace(item, session=DocumentId("s2")) for item in second[2:])]
    parted = [replace(item, id=DocumentId(f"obs_{n}")) for n, item in enumerate(parted)]
    (lesson,) = suggestions(parted)
    assert lesson.content == f"{CAUSE} {FIX}"
    assert lesson.sources == ["obs_1", "obs_3", "obs_4", "obs_2", "obs_5"]
