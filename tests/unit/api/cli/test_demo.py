"""The demo fleet: the same for everybody, readable, and honest in what it asks."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from api.cli.demo import BATCH, EVENT_KEY, DemoQuestion, Fleet, build_fleet
from ingest.commands.decide import Caller, WriteCommand, decide
from ingest.ids import EventId
from projections.text.similarity import SUPERSEDE_ABOVE, similarity, states_the_same

NOW = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return build_fleet(NOW)


def by_id(fleet: Fleet) -> dict[str, dict[str, Any]]:
    return {command["event_id"]: command for command in fleet.commands}


def corrections(fleet: Fleet) -> dict[str, str]:
    """The event of each memory that another one corrects, by the event of the correction."""
    return {command["event_id"]: command["corrects"] for command in fleet.commands if "corrects" in command}


def texts(fleet: Fleet, kind: str) -> list[str]:
    return [command["content"] for command in fleet.commands if command["type"] == kind]


def test_the_same_moment_gives_the_same_fleet(fleet: Fleet):
    assert build_fleet(NOW) == fleet


def test_another_moment_changes_only_when_things_happened(fleet: Fleet):
    later = build_fleet(NOW + timedelta(days=8))
    undated = [{**command, "occurred_at": ""} for command in fleet.commands]
    assert [{**command, "occurred_at": ""} for command in later.commands] == undated
    assert later.commands[0]["occurred_at"] != fleet.commands[0]["occurred_at"]


@pytest.mark.parametrize("days", range(8))
def test_everything_happens_on_the_weekday_that_its_text_names(fleet: Fleet, days: int):
    """Else the answers that a question about a Tuesday finds would change from day to day."""

    def weekdays(of: Fleet) -> list[int]:
        return [datetime.fromisoformat(command["occurred_at"]).weekday() for command in of.commands]

    now = NOW + timedelta(days=days)
    later = build_fleet(now)
    assert weekdays(later) == weekdays(fleet)
    newest = max(datetime.fromisoformat(command["occurred_at"]) for command in later.commands)
    assert timedelta() < now - newest < timedelta(days=8)


def test_a_fleet_of_some_size_works_in_three_projects(fleet: Fleet):
    counts = Counter(command["type"] for command in fleet.commands)
    assert len(fleet.agents) >= 8
    assert len({project for _, project in fleet.agents}) == 3
    assert 250 <= counts["observe"] <= 350
    assert 25 <= counts["remember"] <= 40
    assert 12 <= counts["lesson"] <= 25


def test_every_agent_works_in_one_project_with_one_role(fleet: Fleet):
    roles = {(command["agent_id"], command["project"], command["metadata"]["role"]) for command in fleet.commands}
    assert len(roles) == len({agent for agent, _ in fleet.agents}) == 10


def test_event_ids_are_unique_and_known_in_advance(fleet: Fleet):
    assert sorted(by_id(fleet)) == sorted(f"demo-{number}" for number in range(1, len(fleet.commands) + 1))
    assert all(command["metadata"][EVENT_KEY] == command["event_id"] for command in fleet.commands)


def test_the_server_accepts_every_command(fleet: Fleet):
    for command in fleet.commands:
        sent = {name: value for name, value in command.items() if name != "corrects"}  # no command of the API
        parsed = msgspec.json.decode(msgspec.json.encode(sent), type=WriteCommand)
        decision = decide(parsed, Caller(), EventId(command["event_id"]), NOW)  # pyright: ignore[reportArgumentType]
        assert "REDACTED" not in repr(decision.event.data)


def test_everything_happened_before_now_within_ten_days(fleet: Fleet):
    times = [datetime.fromisoformat(command["occurred_at"]) for command in fleet.commands]
    assert NOW - timedelta(days=10) < min(times)
    assert max(times) < NOW


def test_a_batch_is_one_agents_and_of_moderate_size(fleet: Fleet):
    for batch in fleet.batches:
        assert {command["agent_id"] for command in batch.commands} == {batch.agent}
        assert 1 <= len(batch.commands) <= BATCH


def test_no_observation_is_said_twice(fleet: Fleet):
    prose = [command["content"] for command in fleet.commands if command["type"] == "observe" and "content" in command]
    assert len(set(prose)) == len(prose)


def test_some_lessons_are_said_again(fleet: Fleet):
    assert len([count for count in Counter(texts(fleet, "lesson")).values() if count > 1]) >= 3


def test_a_correction_says_another_number_and_comes_later(fleet: Fleet):
    commands, order = by_id(fleet), [command["event_id"] for command in fleet.commands]
    for newer, older in corrections(fleet).items():
        assert not states_the_same(commands[newer]["content"], commands[older]["content"])
        assert similarity(commands[newer]["content"], commands[older]["content"]) > SUPERSEDE_ABOVE
        assert commands[newer]["project"] == commands[older]["project"]
        assert order.index(older) < order.index(newer)


def test_no_other_memories_resemble_each_other(fleet: Fleet):
    memories = [command for command in fleet.commands if command["type"] == "remember"]
    for place, older in enumerate(memories):
        for newer in memories[place + 1 :]:
            if (
                newer["project"] == older["project"]
                and similarity(newer["content"], older["content"]) > SUPERSEDE_ABOVE
            ):
                assert newer["corrects"] == older["event_id"]


def test_every_question_has_an_answer_that_readers_may_see_and_that_is_current(fleet: Fleet):
    commands = by_id(fleet)
    assert len(fleet.questions) == 12
    for question in fleet.questions:
        expected = commands[question.event_id]
        assert (expected["project"], expected["content"]) == (question.project, question.content)
        assert expected.get("visibility", "public") == "public"
        assert question.event_id not in corrections(fleet).values()
        assert question.asker != expected["agent_id"]


def test_questions_are_put_in_other_words_than_their_answers(fleet: Fleet):
    assert all(similarity(question.text, question.content) < 0.25 for question in fleet.questions)


def test_an_answer_is_known_by_its_event_or_by_its_text():
    question = DemoQuestion("?", "p", "ada", "demo-7", "said so")
    assert question.answered_by({"metadata": {EVENT_KEY: "demo-7"}, "content": "shortened"})
    assert question.answered_by({"metadata": {}, "content": "said so"})
    assert not question.answered_by({"metadata": {EVENT_KEY: "demo-70"}, "content": "other"})
