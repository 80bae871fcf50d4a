"""What many have in common is kept as one."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from condensing import NOON, asked, called, saw
from msgspec.structs import replace

from ingest.ids import DocumentId
from ingest.log.position import Position
from projections.condensing.consolidation import (
    CONTENT_CHARS,
    FACTS,
    Fact,
    facts_of,
    find_topics,
    procedures_of,
    routines_of,
)
from projections.condensing.summaries import Digest
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation

REDIS = [
    saw(0, "The Redis stream lost entries because it was trimmed too early.", concepts=("Redis", "redis", "trimming")),
    saw(1, "Trimming the Redis stream waits for every consumer group now.", concepts=("redis", "trimming")),
    saw(2, "Redis answered slowly while the stream was trimmed.", concepts=("REDIS",)),
    saw(3, "Redis is fine.", concepts=("redis",), importance=4),
]


def told(narrative: str = "", *decisions: str) -> Digest:
    return Digest("t", narrative, list(decisions), [], [], 3)


def pattern(n: int, session_id: str, content: str, **fields: Any) -> Memory:
    given: dict[str, Any] = {
        "id": DocumentId(f"mem_{n}"),
        "event_id": f"m{n}",
        "tenant": "default",
        "session_id": session_id,
        "content": content,
        "title": content.split("\n")[0],
        "memory_type": "procedural",
        "occurred_at": NOON,
        "recorded_at": NOON,
        "updated_at": NOON,
        "position": str(Position(n, 0)),
        **fields,
    }
    return msgspec.convert(given, Memory)


def test_important_observations_about_a_topic_are_one_memory():
    (made,) = find_topics(REDIS)
    assert (made.concept, made.title) == ("redis", "About Redis")
    assert made.content.splitlines() == [made.title, *(f"- {one.content}" for one in REDIS[:3])]
    assert made.sources == ["obs_0", "obs_1", "obs_2"]


def test_the_topic_most_spoken_of_is_first_and_ties_are_by_concept():
    assert [topic.concept for topic in find_topics([*REDIS, *CACHE])] == ["cache", "redis"]
    seen = [saw(n, f"{both} is up on host{n}.", concepts=(both,)) for n, both in enumerate(["bb", "aa"] * 3)]
    assert [topic.concept for topic in find_topics(seen, max_topics=1)] == ["aa"]


CACHE = [saw(10 + n, f"The cache of service{n} is full.", concepts=("cache",)) for n in range(4)]


def test_the_most_important_observations_of_a_topic_stay_the_newest_of_equals():
    seen = [
        saw(n, f"The cache of host{n} is full.", concepts=("cache",), importance=9 if n == 0 else 5) for n in range(6)
    ]
    assert find_topics(seen, top=3)[0].sources == ["obs_0", "obs_4", "obs_5"]


def test_a_memory_of_a_topic_names_only_observations_whose_words_it_has():
    seen = [saw(n, f"Host{n} " + "writes to the cache " * 11 + "often.", concepts=("cache",)) for n in range(8)]
    (made,) = find_topics(seen)
    assert 0 < len(made.sources) < 8
    assert made.sources == [one.id for one in seen if one.content[:6] in made.content]


@pytest.mark.parametrize(
    "concept",
    ["consolidated", "fact", "bash", "old_string", "src/pool.py", "pool.py", "0.4", "created_at", "--dry-run"],
)
def test_tags_of_the_server_tools_keys_columns_flags_and_paths_are_no_topics(concept: str):
    data = {"tool_name": "Bash", "tool_input": {"old_string": "x"}}
    seen = [saw(n, f"The {concept} needs a restart after part {n}.", data=data, concepts=(concept,)) for n in range(4)]
    assert find_topics(seen) == []


@pytest.mark.parametrize(
    "said",
    [
        "I'm looking to book a flight to Las Vegas in May.",
        "Your flight to Las Vegas has been booked.",
        "LAS to PHX, Flight Number: HAT284, Las Vegas",
        "Next, I will look at Las Vegas.",
        "This is the flight to Las Vegas.",
        "Bash `book` failed: Las Vegas is not found",
    ],
)
def test_what_is_told_to_somebody_or_of_the_moment_makes_no_topic(said: str):
    assert find_topics([saw(n, f"{said} {n}", concepts=("las vegas",)) for n in range(4)]) == []


def test_a_topic_that_one_observation_tells_is_none():
    said = "The cache of the gateway is full on host{} again."
    assert find_topics([saw(n, said.format(n), concepts=("cache",)) for n in range(3)])
    alike = ["The cache is full.", "A cache of it is so full.", "Full, full, full is the cache today."]
    seen = [saw(n, text, concepts=("cache",)) for n, text in enumerate(alike)]
    assert find_topics(seen) == []


def test_a_topic_that_is_told_under_another_is_left_out():
    said = [
        "Float Pixel Data needs no header.",
        "The handler reads Float Pixel Data.",
        "Float Pixel Data is of 32 bits.",
    ]
    seen = [saw(n, text, concepts=("float pixel data", "pixel data")) for n, text in enumerate(said)]
    assert [topic.concept for topic in find_topics(seen)] == ["float pixel data"]


def test_observations_that_only_name_a_topic_without_a_claim_about_it_do_not_count():
    seen = [called(n, "Edit", {"file_path": f"src/cache{n}.py"}) for n in range(4)]
    seen = [saw(n, one.content, one.kind, one.data, concepts=("cache",)) for n, one in enumerate(seen)]
    assert find_topics([*seen, *CACHE[:2]]) == []
    assert [topic.sources for topic in find_topics([*seen, *CACHE[:3]])] == [["obs_10", "obs_11", "obs_12"]]


def test_a_memory_of_a_topic_is_bounded():
    name = "c" * 60
    seen = [saw(n, f"Finding{n} is about {name} and word{n} {'x' * 150}.", concepts=(name,)) for n in range(8)]
    (made,) = find_topics(seen)
    assert made.content.startswith(made.title)
    assert len(made.title) <= 80
    assert len(made.content) <= CONTENT_CHARS


def test_claim_that_was_replaced_makes_no_topic():
    (made,) = find_topics(
        [*REDIS, saw(5, "Redis is restarted by hand.", concepts=("redis",))], without={REDIS[1].content}
    )
    assert REDIS[1].content not in made.content
    assert find_topics(REDIS, without={REDIS[1].content}) == []


def test_what_is_said_of_a_topic_alike_is_said_once():
    seen = [saw(n, "The gateway restarts after every deploy.", concepts=("gateway",)) for n in range(3)]
    (made,) = find_topics(seen)
    assert made.content == "About gateway\n- The gateway restarts after every deploy."
    assert made.sources == ["obs_0", "obs_1", "obs_2"]


def test_facts_need_five_sessions():
    decided = told("", "We will use Redis for the log.")
    assert facts_of([decided] * 4) == []
    assert facts_of([decided] * 5) == [Fact("We will use Redis for the log.", [0, 1, 2, 3, 4])]


def test_what_two_sessions_state_is_a_fact_in_its_newest_wording():
    summaries = [
        told("The nightly backup takes two hours. Lunch was served late."),
        told("The nightly backup still takes two hours."),
        told("Edit `src/nightly/backup.py`."),
        told("Edit `src/nightly/backup.py`."),
        told(),
    ]
    assert facts_of(summaries) == [Fact("The nightly backup still takes two hours.", [0, 1])]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The nightly backup takes two hours.", "The nightly backup takes three hours."),
        ("The lease must be shared by workers.", "The lease must not be shared by workers."),
        ("The deploy host is called gannet-1.", "The deploy host is called gannet-2."),
        ("The flight leaves from Atlanta at noon.", "The flight leaves from Chicago at noon."),
        ("The cache is cleared by a deploy.", "The cache is filled by a deploy."),
    ],
)
def test_sessions_that_contradict_each_other_do_not_state_the_same(one: str, other: str):
    assert facts_of([told(one), told(other), told(), told(), told()]) == []


@pytest.mark.parametrize(
    "said",
    [
        "Now, I will use `curl` to upload the script.",
        "My user ID is omar_rossi_1241.",
        "Please give your reservation ID to the agent.",
        "Edit `src/nightly/backup.py`.",
        "298: # May be Pixel Data or Float Pixel Data",
        '{"reservation_id": "FQ8APE", "user_id": "omar"}',
        "| command: edit 4:4 def division(a: float, b: float) -> float: end_of_edit",
        "0 0 0 0 0 0 0 0 --:--:-- --:--:-- --:--:-- 0",
        "**Payment Method:** Credit Card ending in 5018",
        "call get_reservation_details(reservation_id=1)",
        "exec_command `cargo test -p core --lib`: test result: FAILED.",
        "User: We're currently solving the following CTF challenge.",
        "The policies are quite strict in this regard.",
    ],
)
def test_next_steps_output_and_what_is_only_about_who_talks_are_no_facts(said: str):
    assert facts_of([told(said, said)] * 6) == []


def test_what_most_sessions_state_comes_first_and_old_sessions_do_not_count():
    old = [told("", "We chose Kafka for the event log.")] * 3
    new = [told("", f"We agreed on port{n} for service{n}.") for n in range(19)]
    summaries = [*old, *new, told("The release train leaves on Friday. The release train leaves on Friday.")]
    summaries[-3] = told("The release train leaves on Friday.")
    found = facts_of(summaries)
    assert found[0] == Fact("The release train leaves on Friday.", [20, 22])
    assert len(found) == FACTS
    assert not any("Kafka" in fact.content for fact in found)


def test_a_pattern_said_in_two_sessions_is_a_procedure():
    said = "Release the gateway\n1. Freeze the branch\n2. Run the smoke tests\n3. Tag and push"
    memories = [
        pattern(1, "s1", said.replace("Tag and push", "Push"), is_latest=False),
        pattern(2, "s2", said),
        pattern(3, "s3", "Rotate the token\n- Revoke it\n- Issue another"),
        pattern(4, "s3", "Release the gateway by hand", memory_type="semantic"),
    ]
    assert [(procedure.name, procedure.steps, procedure.sources) for procedure in procedures_of(memories)] == [
        ("Release the gateway", ["Freeze the branch", "Run the smoke tests", "Tag and push"], ["mem_2", "mem_1"])
    ]


def test_a_pattern_by_tag_without_a_list_has_sentences_as_steps():
    said = "Always freeze the clock first. Then run the login tests."
    memories = [
        pattern(n, f"s{n}", said, memory_type="semantic", tags=["Pattern"], title="Login tests") for n in range(2)
    ]
    assert procedures_of(memories)[0].steps == ["Always freeze the clock first.", "Then run the login tests."]


def test_a_pattern_that_nothing_latest_says_any_more_is_no_procedure():
    memories = [pattern(n, f"s{n}", "Freeze the clock in every test", is_latest=False) for n in range(2)]
    assert procedures_of(memories) == []


def in_session(name: str, *observations: Observation) -> list[Observation]:
    return [msgspec.structs.replace(item, session=DocumentId(name)) for item in observations]


def nightly(n: int, request: str = "Run the nightly export and check the totals", *commands: str) -> list[Observation]:
    """A session that is asked for the nightly export, looks at something of its own, and runs commands."""
    runs = [called(100 * n + 2 + k, "Bash", {"command": line}, "ok") for k, line in enumerate(commands)]
    own = called(100 * n + 1, "Bash", {"command": f"make day{n}"}, "ok")
    return in_session(f"s{n}", asked(100 * n, request), own, *runs)


EXPORT = ("make export ENV=prod", "uv run python -m tools.totals --all | tail -3")


def test_sessions_with_the_same_request_and_commands_are_a_procedure():
    seen = [item for n in range(8) for item in nightly(n, "Run the nightly export and check the totals", *EXPORT)]
    (routine,) = routines_of(seen)
    assert routine.name == "Run the nightly export and check the totals"
    assert routine.steps == ["Bash `make export ENV=prod`", "Bash `uv run python -m tools.totals --all`"]
    assert set(routine.sources) == {item.id for n in range(8) for item in (seen[4 * n], *seen[4 * n + 2 : 4 * n + 4])}


RELEASES = (
    "Release a new version",
    "please release the new version",
    "cut a release",
    "can you release the next version?",
    "release version 1.4.2",
    "we need a new release",
    "let's release version 1.5",
    "new release please",
)


def released(*commands: str, requests: Sequence[str] = RELEASES) -> list[Observation]:
    """Sessions with a request each, and the commands that all of them run."""
    return [
        item
        for n, request in enumerate(requests)
        for item in in_session(
            f"s{n}",
            asked(100 * n, request),
            *(called(100 * n + 1 + k, "Bash", {"command": line}, "ok") for k, line in enumerate(commands)),
        )
    ]


def test_eight_requests_in_other_words_with_one_command_are_a_procedure():
    (routine,) = routines_of(released("git status", "make release"))
    assert (routine.name, routine.steps) == ("Release a new version", ["Bash `make release`"])
    assert len(routine.sources) == 16


@pytest.mark.parametrize(
    "observations",
    [
        released("git status", "ls -la", "pwd", "which make", "cat VERSION", "git log | head"),
        released("npm test", requests=[f"Fix the {what} bug" for what in ("login", "export", "menu", "cart")]),
        released("make test", requests=[f"Write a test for the {what} page" for what in ("login", "menu", "cart")]),
        released("make release", requests=["Release it", "Fix the login", "Look at the menu", "Tidy the cart"]),
    ],
)
def test_trivial_commands_and_requests_for_different_things_are_no_procedure(observations: list[Observation]):
    assert routines_of(observations) == []


def test_requests_with_commands_of_other_names_are_procedures_of_their_own():
    asking, command = "Run the nightly {} of orders", "make {}"
    seen = [
        replace(item, id=DocumentId(f"{item.id}{what}"), session=DocumentId(f"{item.session}{what}"))
        for what in ("export", "import")
        for item in released(command.format(what), requests=[asking.format(what)] * 4)
    ]
    assert {(made.name, *made.steps) for made in routines_of(seen)} == {
        (asking.format(what), f"Bash `{command.format(what)}`") for what in ("export", "import")
    }


def test_requests_and_commands_that_were_written_down_as_text_are_a_procedure_too():
    seen = [
        item
        for n in range(8)
        for item in in_session(
            f"s{n}",
            saw(3 * n, "Run the nightly export", "prompt", role="user"),
            saw(3 * n + 1, "make export", "command_run"),
            saw(3 * n + 2, "make totals: 3 failed", "command_run"),
        )
    ]
    assert [(made.name, made.steps) for made in routines_of(seen)] == [("Run the nightly export", ["make export"])]


@pytest.mark.parametrize(
    ("request_trust", "run"),
    [
        ("imported", saw(2, "make export", "command_run")),
        ("user_stated", saw(2, "make export", "command_run", trust="imported")),
        ("user_stated", saw(2, "make export", "command_run", quarantined="rule")),
        ("user_stated", saw(2, "make export\nAlways push first.", "command_run")),
        ("user_stated", saw(2, "push first", "tool_result")),
    ],
)
def test_a_procedure_has_no_words_of_an_import_or_a_tool(request_trust: str, run: Observation):
    asking = saw(1, "Run the nightly export", "prompt", role="user", trust=request_trust)
    assert routines_of([item for n in range(8) for item in in_session(f"s{n}", asking, run)]) == []


@pytest.mark.parametrize(
    "sessions",
    [
        [nightly(n, "Run the nightly export", *EXPORT) for n in range(2)],  # by chance
        [nightly(n, "Run the nightly export", f"make part{n}") for n in range(8)],  # different commands
        [nightly(n, f"Write a test for service number{n} of town{n}", *EXPORT) for n in range(8)],  # different requests
        [nightly(n, "Run the nightly export", *(EXPORT * (n < 4))) for n in range(8)],  # half of them
        [in_session(f"s{n}", called(n, "Bash", {"command": "make"}, "ok")) for n in range(8)],  # no request
        [in_session(f"s{n}", asked(2 * n, "Fix it now"), called(2 * n + 1, "Bash", {"command": "make"}, error="no"))
         for n in range(8)],  # what fails is no way to do it
    ],
)  # fmt: skip
def test_sessions_without_a_request_and_commands_in_common_are_no_procedure(sessions: list[list[Observation]]):
    assert routines_of([item for session in sessions for item in session]) == []


STORIES = {
    "whole file": (
        "The export ran out of memory because the whole file is read at once; it is streamed now.",
        "Export job died again: out of memory, the file was read whole.",
        "The nightly export was killed for memory. It reads the file at once, so we stream it in chunks.",
        "Out of memory in the export, since it keeps the whole file in memory. Streaming is the fix.",
        "The export of orders failed with out of memory. The file has to be streamed, not read whole.",
    ),
    "nightly backup": (
        "We decided to keep the nightly backup on the second volume.",
        "The nightly backup goes to the second volume now.",
        "nightly backup moved to the second volume, the first was full",
        "Put the nightly backup on the second volume: done.",
        "The second volume holds the nightly backup.",
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_five_sessions_that_tell_the_same_in_ordinary_words_are_one_memory(name: str):
    seen = [item for n, text in enumerate(STORIES[name]) for item in in_session(f"s{n}", saw(n, text))]
    (topic,) = find_topics(seen)
    assert topic.concept == name
    assert topic.sources == [item.id for item in seen]
    assert find_topics([msgspec.structs.replace(item, session=DocumentId("s")) for item in seen]) == []
    assert find_topics(seen[:2]) == []


def test_decisions_of_one_form_about_different_things_are_no_story():
    things = ["invoices are rounded", "pictures are copied", "passwords are rotated", "backups are tested"]
    seen = [saw(n, f"We decided that {thing} every night.") for n, thing in enumerate(things)]
    assert find_topics([item for n, one in enumerate(seen) for item in in_session(f"s{n}", one)]) == []


@pytest.mark.parametrize(
    "said",
    [
        "All tests pass and the linter has no issues.",
        "Now update the settings table of the checkout service.",
        "`pool.py` calls `open_all()` in /src/shop/checkout/service.py.",
        "Your settings table of the checkout service is full.",
    ],
)
def test_what_agents_report_of_every_session_is_no_story(said: str):
    assert find_topics([item for n in range(5) for item in in_session(f"s{n}", saw(n, said))]) == []


def talk(n: int, *answers: str) -> list[Observation]:
    said = [saw(10 * n + k, text, "message", role="assistant") for k, text in enumerate(answers, 1)]
    return in_session(f"s{n}", saw(10 * n, "Please help me.", "prompt", role="user"), *said)


BOOKING = "The booking of Ivan Smith is confirmed for $329 without baggage."


def test_one_customers_case_is_no_memory_of_the_project():
    """A rule that the answers state is one."""
    rule = "A refund goes to the original payment method within seven business days."
    looked = [in_session(f"s{n}", called(10 * n + 8, "update_reservation", {"code": "IFOYYZ"}, "ok")) for n in range(3)]
    seen = [item for n in range(3) for item in (*talk(n, BOOKING, rule), *looked[n])]
    assert [topic.content.splitlines()[1:] for topic in find_topics(seen)] == [[f"- {rule}"]]
    worked = [item for n in range(3) for item in in_session(f"s{n}", called(10 * n + 9, "Bash", {"command": "make"}))]
    assert len(find_topics([*seen, *worked])) == 2


@pytest.mark.parametrize(
    ("decision", "is_fact"),
    [
        (BOOKING, False),
        ("The reservation IFOYYZ cannot be canceled after a day.", False),
        ("Ivan Smith has booked a seat beside the window.", False),
        ("Basic economy flights cannot be modified.", True),
    ],
)
def test_one_customers_case_is_no_fact_of_the_project(decision: str, is_fact: bool):
    others = [told()] * 4
    assert [fact.content for fact in facts_of([*others, told("", decision)])] == [decision] * is_fact
    worked = msgspec.structs.replace(told("", decision), files=["src/booking.py"])
    assert [fact.content for fact in facts_of([*others, worked])] == [decision]
    assert [fact.content for fact in facts_of([*others[1:], told("", decision), told("", decision)])] == [decision]


@pytest.mark.parametrize("fields", [{"trust": "imported"}, {"trust": "tool_output"}, {"quarantined": "operator"}])
def test_memories_quote_only_what_users_and_agents_stated(fields: dict[str, Any]):
    assert find_topics([msgspec.structs.replace(item, **fields) for item in REDIS]) == []
    (topic,) = find_topics([*REDIS, *(saw(n, REDIS[0].content, concepts=("redis",), **fields) for n in (7, 8))])
    assert set(topic.sources) <= {item.id for item in REDIS}
