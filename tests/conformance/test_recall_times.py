"""Recall of questions that name a time, and of names that nothing is stored under, on a real server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, STRANGER, Desk
from factories import PROJECT, ManualClock

from ingest.errors import CommandRejected
from ingest.roles import KeyScope
from projections.documents.access import Reader
from projections.queries.context import Compile, ContextRequest
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import Recall, RecallAnswer, RecallRequest

NOW = datetime(2026, 11, 25, 15, 30, tzinfo=UTC)
"""A Wednesday."""
DAYS = 14
SAID = {
    days: f"{name} was {done} and the rollout note was written"
    for days, (name, done) in enumerate(
        [
            ("the cache", "resized"), ("the pool", "doubled"), ("the index", "rebuilt"), ("the queue", "drained"),
            ("the ledger", "closed"), ("the parser", "replaced"), ("the viewer", "redrawn"), ("the broker", "upgraded"),
            ("the mailer", "muted"), ("the router", "renamed"), ("the signer", "rotated"), ("the sampler", "removed"),
            ("the exporter", "split"), ("the loader", "patched"),
        ]
    )
}  # fmt: skip


@pytest.fixture
async def recall(desk: Desk) -> Any:
    """Two weeks of a project, a statement and a tool's output a day at noon UTC."""
    for days, text in SAID.items():
        when = NOW - timedelta(days=days, hours=3, minutes=30)
        await desk.observe(text, when, session_id=f"s{days}")
        data = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_output": f"{text} and so on"}
        await desk.observe("", when + timedelta(minutes=1), session_id=f"s{days}", data=data)
    await desk.settle()
    recall = Recall(desk.replica, desk.documents, ManualClock(NOW))
    yield recall
    recall.close()


async def contents(recall: Recall, query: str, reader: Reader = ADA, **fields: Any) -> list[str]:
    """What was stated, without the output of tools."""
    answer = await recall(RecallRequest(query=query, **fields), reader)
    return [one.content for one in answer.results if one.content and "and so on" not in one.content]


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("what did we do yesterday?", [1]), ("what happened on Tuesday?", [1]), ("what did we do on 2026-11-20?", [5]),
        ("what did we do last week?", [3, 4, 5, 6, 7, 8, 9]), ("Was haben wir gestern gemacht?", [1]),
        ("¿Qué hicimos ayer?", [1]), ("Qu'avons-nous fait hier ?", [1]), ("Что мы делали вчера?", [1]),
        ("昨天做了什么", [1]), ("昨日何をしましたか", [1]), ("what did we do on 1 January 2025?", []),
    ],
)  # fmt: skip
async def test_a_question_that_names_only_a_time_lists_that_time_statements_first(
    recall: Recall, query: str, days: list[int]
):
    answer = await recall(RecallRequest(query=query, project=PROJECT, limit=20), ADA)
    said = [one.content for one in answer.results][: len(days)]
    assert said == [SAID[day] for day in days]
    assert len(answer.results) == 2 * len(days), "and the output of tools behind them"
    assert answer.confidence is None


async def test_what_happened_in_the_named_time_comes_before_what_says_the_same_words(recall: Recall):
    found = await contents(recall, "which rollout note was written on Friday", project=PROJECT, min_confidence=0)
    assert found[0] == SAID[5]
    assert len(found) > 5, "what is outside of the time is not hidden"


async def test_what_is_about_the_time_is_of_it(recall: Recall, desk: Desk):
    await desk.observe("Anna moves the certificates on 2026-11-27.", NOW - timedelta(days=20))
    await desk.settle()
    assert await contents(recall, "what is on 27/11/2026?", project=PROJECT) == [
        "Anna moves the certificates on 2026-11-27."
    ]


async def test_bounds_of_the_request_count_for_more_than_the_query(recall: Recall):
    bounds: dict[str, Any] = {"from_": NOW - timedelta(days=3), "to": NOW - timedelta(days=2), "min_confidence": 0}
    found = await contents(recall, "which rollout note was written yesterday", project=PROJECT, **bounds)
    assert found == [SAID[2]]


async def test_a_day_is_that_of_the_callers_zone(recall: Recall):
    """Noon UTC is the next day's early morning in Auckland, where it is the 26th already."""
    found = await contents(recall, "what did we do yesterday?", project=PROJECT, time_zone="Pacific/Auckland")
    assert found == [SAID[1]]
    found = await contents(recall, "what did we do on 24 November 2026?", project=PROJECT, time_zone="Pacific/Auckland")
    assert found == [SAID[2]]


@pytest.mark.parametrize("zone", ["Nowhere/City", "../../etc/passwd", "Europe", "+02:00", "\0"])
async def test_a_zone_that_does_not_exist_is_refused(recall: Recall, zone: str):
    with pytest.raises(CommandRejected, match="time zone") as refused:
        await recall(RecallRequest(query="what is it?", time_zone=zone), ADA)
    assert refused.value.field == "time_zone"


async def test_a_past_state_is_asked_in_its_own_time(recall: Recall, desk: Desk):
    """By the clock of the test, yesterday is the 24th; `as_of` is a week behind it."""
    desk_now = max(datetime.now(UTC), NOW) + timedelta(days=7)
    asked = RecallRequest(query="what did we do yesterday?", project=PROJECT, as_of=desk_now)
    assert [one.content for one in (await recall(asked, ADA)).results] == []


async def notes(recall: Recall, reader: Reader = ADA, **fields: Any) -> list[str]:
    answer: RecallAnswer = await recall(RecallRequest(query="rollout", **fields), reader)
    return answer.notes


async def test_a_project_without_documents_is_said_with_similar_names(recall: Recall, desk: Desk):
    await desk.observe("seen", project="Café")
    await desk.observe("seen", project="zebra")
    await desk.settle()
    assert await notes(recall, project="atlsa") == [
        "project 'atlsa' has no searchable documents that you can read; similar: 'atlas'"
    ]
    assert "similar: 'atlas'" in (await notes(recall, project="ATLAS"))[0]
    assert "similar: 'Café'" in (await notes(recall, project="cafe\u0301"))[0]
    assert "similar" not in (await notes(recall, project="quite another"))[0]
    assert await notes(recall, project=PROJECT) == await notes(recall) == []
    assert "agent 'adda'" in (await notes(recall, project=PROJECT, agent_id="adda"))[0]
    assert "session 's99'" in (await notes(recall, session_id="s99"))[0]


async def test_an_existing_project_that_does_not_answer_is_no_unknown_one(recall: Recall):
    assert await notes(recall, project=PROJECT, tags=["none has it"]) == []


async def test_names_of_what_the_reader_may_not_find_are_not_told(recall: Recall, desk: Desk):
    await desk.remember("only for ada", project="secret-plan", visibility="private")
    await desk.remember("of another tenant", project="secret-plans", tenant=STRANGER.tenant)
    await desk.settle()
    only_other = Reader(ADA.tenant, ADA.agent_id, key_scope=KeyScope(projects=("other",)))
    for reader in (ALONE, only_other, Reader(ADA.tenant, "bob")):
        assert await notes(recall, reader, project="secret-plam") == [
            "project 'secret-plam' has no searchable documents that you can read"
        ]
    assert "'secret-plan'" in (await notes(recall, project="secret-plam"))[0]


async def test_a_context_resolves_the_time_of_its_query_and_says_that_a_project_is_unknown(recall: Recall, desk: Desk):
    profiles = ProjectProfiles(desk.replica, desk.documents)
    compiling = Compile(desk.replica, desk.documents, recall, profiles, ManualClock(NOW))
    asked = ContextRequest(project=PROJECT, query="what did we do yesterday?", time_zone="Pacific/Auckland")
    context = await compiling(asked, ADA)
    (told,) = [one.text for one in context.blocks if one.kind == "recall"]
    assert [days for days, text in SAID.items() if text in told] == [1]
    assert context.notes == []
    assert "similar: 'atlas'" in (await compiling(ContextRequest(project="atlsa"), ADA)).notes[0]
