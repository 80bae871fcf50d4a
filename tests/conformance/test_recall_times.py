"""Recall of questions that name a time, and of names that nothing is stored under, on a real server."""

import re
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from desk import ADA, ALONE, BOB, STRANGER, Desk
from factories import PROJECT, ManualClock
from msgspec.structs import replace

from ingest.commands.decide import ReviseMemory
from ingest.errors import CommandRejected
from ingest.ids import DocumentId, shortened_id
from ingest.log.keys import PartitionKeys
from ingest.platform.clock import system_clock
from ingest.roles import KeyScope
from projections.index.embedded import EmbeddedIndex
from projections.index.protocol import DocumentLocation
from projections.nouns.access import Reader
from projections.queries import lesson as lessons
from projections.queries import memory as memories
from projections.queries import observation as observations
from projections.queries import session as sessions
from projections.queries.context import Compile, ContextRequest
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import Recall, RecallAnswer, RecallRequest
from projections.search.question import Filter
from projections.text import terms
from projections.text.dates import LONGEST_QUESTION

VIEWS = (lessons, memories, observations, sessions)  # a result is shown as the view that its module registers

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
    return [result.content for result in answer.results if result.content and "and so on" not in result.content]


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
    texts = [result.content for result in answer.results][: len(days)]
    assert texts == [SAID[day] for day in days]
    assert len(answer.results) == 2 * len(days), "and the output of tools behind them"
    assert answer.confidence is None


async def test_what_happened_in_the_named_time_comes_before_what_says_the_same_words(recall: Recall):
    results = await contents(
        recall, "which rollout note was written on Friday", project=PROJECT, min_confidence=0, limit=20
    )
    assert results[0] == SAID[5]
    assert len(results) > 5, "what is outside of the time is not hidden"


async def test_what_is_about_the_time_is_of_it(recall: Recall, desk: Desk):
    await desk.observe("Anna moves the certificates on 2026-11-27.", NOW - timedelta(days=20))
    await desk.settle()
    assert await contents(recall, "what is on 27/11/2026?", project=PROJECT) == [
        "Anna moves the certificates on 2026-11-27."
    ]


async def test_bounds_of_the_request_count_for_more_than_the_query(recall: Recall):
    bounds: dict[str, Any] = {"from_": NOW - timedelta(days=3), "to": NOW - timedelta(days=2), "min_confidence": 0}
    results = await contents(recall, "which rollout note was written yesterday", project=PROJECT, **bounds)
    assert results == [SAID[2]]


async def test_a_day_is_that_of_the_callers_zone(recall: Recall):
    """Noon UTC is the next day's early morning in Auckland, where it is the 26th already."""
    results = await contents(recall, "what did we do yesterday?", project=PROJECT, time_zone="Pacific/Auckland")
    assert results == [SAID[1]]
    results = await contents(
        recall, "what did we do on 24 November 2026?", project=PROJECT, time_zone="Pacific/Auckland"
    )
    assert results == [SAID[2]]


@pytest.mark.parametrize("zone", ["Nowhere/City", "../../etc/passwd", "Europe", "+02:00", "\0"])
async def test_a_zone_that_does_not_exist_is_refused(recall: Recall, zone: str):
    with pytest.raises(CommandRejected, match="time zone") as refused:
        await recall(RecallRequest(query="what is it?", time_zone=zone), ADA)
    assert refused.value.field == "time_zone"


async def test_a_past_state_is_asked_in_its_own_time(recall: Recall, desk: Desk):
    """By the clock of the test, yesterday is the 24th; `as_of` is a week behind it."""
    desk_now = max(datetime.now(UTC), NOW) + timedelta(days=7)
    request = RecallRequest(query="what did we do yesterday?", project=PROJECT, as_of=desk_now)
    assert [result.content for result in (await recall(request, ADA)).results] == []


async def test_a_memory_is_found_while_it_is_valid(desk: Desk):
    now, hour = system_clock(), timedelta(hours=1)
    freeze = await desk.remember("Nothing is deployed during the freeze", valid_until=now + hour)
    await desk.remember("Nothing was deployed during the freeze of last winter", valid_until=now - hour)
    await desk.settle()
    for as_of, names in ((None, [freeze]), (now + hour / 2, [freeze]), (now + hour, []), (now - 2 * hour, [])):
        answer = await desk.recall(RecallRequest(query="freeze", project=PROJECT, as_of=as_of), ADA)
        assert [result.id for result in answer.results] == names, as_of
        assert [result.valid_until for result in answer.results] == [now + hour for _ in names]


async def test_a_superseded_version_is_valid_until_the_newer_one_until_that_is_forgotten(desk: Desk):
    first = await desk.remember("The port is 8080")
    await desk.settle()
    before = system_clock()
    command = ReviseMemory(memory=first, content="The port is 9090", memory_type="semantic", purpose="information")
    second = await desk.say(replace(command, project=PROJECT, agent_id="bob"))
    await desk.settle()

    async def found(as_of: datetime | None = None) -> list[tuple[str, bool]]:
        answer = await desk.recall(RecallRequest(query="port", project=PROJECT, as_of=as_of), ADA)
        return [(result.id, result.valid_until is not None) for result in answer.results]

    assert await found() == [(second, False)]
    assert await found(before) == [(first, True)]
    await desk.forget("memory", second)
    assert await found() == [(first, False)]


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


async def test_a_shortened_id_is_that_of_a_document_that_the_reader_can_see(desk: Desk):
    own, foreign = await desk.remember("tea"), await desk.remember("tea", tenant=STRANGER.tenant)
    await desk.settle()
    given = [shortened_id(own), own[:-1], shortened_id(foreign), "mem_0000000", own]
    assert await desk.lookup.whole_ids(given, ADA) == [own, own, shortened_id(foreign), "mem_0000000", own]


async def test_a_shortened_id_of_a_replaced_memory_is_only_completed_for_those_who_can_read_it(desk: Desk):
    shared, private = await desk.remember("tea"), await desk.remember("milk", visibility="private")
    await desk.settle()
    for name in (shared, private):
        await desk.say(
            ReviseMemory(
                memory=name, content="coffee", memory_type="semantic", purpose="information", agent_id=ADA.agent_id
            )
        )
    await desk.settle()
    given = [shortened_id(shared), shortened_id(private)]
    assert await desk.lookup.whole_ids(given, ADA) == [shared, private]
    assert await desk.lookup.whole_ids(given, BOB) == [shared, given[1]]


async def test_a_shortened_id_of_several_documents_is_refused_with_their_ids(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    names = sorted([await desk.remember("tea"), await desk.remember("coffee")])
    await desk.settle()

    def every(index: EmbeddedIndex, allowed: Filter, begins: str) -> list[DocumentLocation]:
        return index.every(allowed)

    monkeypatch.setattr(EmbeddedIndex, "beginning", every)
    with pytest.raises(CommandRejected) as refused:
        await desk.lookup.whole_ids(["mem_1234567"], ADA)
    assert sorted(re.findall(r"mem_[0-9a-f]{20}", str(refused.value))) == names


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
    request = ContextRequest(project=PROJECT, query="what did we do yesterday?", time_zone="Pacific/Auckland")
    context = await compiling(request, ADA)
    (result,) = [block.text for block in context.blocks if block.kind == "recall"]
    assert [days for days, text in SAID.items() if text in result] == [1]
    assert context.notes == []
    assert "similar: 'atlas'" in (await compiling(ContextRequest(project="atlsa"), ADA)).notes[0]


OTHERS = [
    "The tests run every night, and it takes them an hour until they are green again.",
    "Deploys go out on Tuesdays after the meeting at ten.",
    "Anna asked whether the lease of the worker was lost, or who had taken it.",
    "Was wir heute ausrollen, steht im Kalender.",
    "Los despliegues salen los martes.",
    "Мы выкатываем релизы по вторникам.",
    "我们每周二部署。",
]


async def first(desk: Desk, query: str) -> str:
    answer = await desk.recall(RecallRequest(query=query, project=PROJECT), ADA)
    return answer.results[0].content if answer.results else ""


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("IT", "The password of the printer is with IT, on the third floor."),
        ("it", "The password of the printer is with IT, on the third floor."),
        ("The Who", "The Who played in Leeds, and Anna was there."),
        ("US", "Data of customers from Texas stays in the US region."),
        ("WHO", "Numbers on malaria come from the WHO."),
        ("who are we", "Who are we? Four people who keep the ledger alive."),
        ("Who are we?", "Who are we? Four people who keep the ledger alive."),
        ("this is it", "This is it: the last release of the old client."),
        ("wer sind wir", "Wer sind wir? Vier Leute, die das Hauptbuch pflegen."),
        ("quiénes somos", "Quiénes somos: cuatro personas que cuidan el libro mayor."),
        ("qui sommes-nous", "Qui sommes-nous ? Quatre personnes qui tiennent le grand livre."),
        ("кто мы", "Кто мы: четыре человека, которые ведут книгу."),
        ("我们是谁", "我们是谁：四个人维护账本。"),
        ("私たちは誰", "私たちは誰か：帳簿を守る四人です。"),
    ],
)
async def test_a_question_of_stop_words_finds_the_text_that_says_them(desk: Desk, query: str, content: str):
    for text in [content, *OTHERS] if query != "it" else [content, *OTHERS[1:]]:
        await desk.observe(text)
    await desk.settle()
    assert await first(desk, query) == content


@pytest.mark.parametrize(
    ("query", "content", "other"),
    [
        ("1.2.4", "We run v1.2.4 in production.", "We run 4.2.1 in production."),
        ("v1.2.4", "We run 1.2.4 in production.", "We run v4.2.1 in production."),
        (
            "which release is 1.2.4",
            "The release v1.2.4 has the fix.",
            "The release 4.2.1 has the fix, and 2.1.4 as well.",
        ),
        ("1.2.4", "We run 1.2.4-rc1 in production.", "We run 4.2.1-rc1 in production."),
        ("10.0.0.12", "The gateway is 10.0.0.12:8080 now.", "The gateway is 12.0.0.10:8080 now."),
        ("10.0.0.12", "The subnet is 10.0.0.12/30 now.", "The subnet is 12.0.0.10/30 now."),
        ("api/app.py", "The change is in src/api/app.py today.", "The change is in src/app/api.py today."),
        ("pool-size-max", "Set redis.pool-size-max to eight.", "Set redis.max-size-pool to eight."),
    ],
)
async def test_the_order_of_the_parts_of_a_version_address_or_path_counts(
    desk: Desk, query: str, content: str, other: str
):
    for text in (other, other.replace("now", "then"), content, other.replace("today", "still")):
        await desk.observe(text)
    await desk.settle()
    assert await first(desk, query) == content


NOW_MS = 1_790_000_000_000
QUEUE = PartitionKeys(3).of_generation(2).embed_queue


async def test_a_long_query_is_searched_by_its_rarest_terms_and_read_outside_the_event_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    name = await desk.remember("The saffron is in the pantry")
    await desk.settle()
    reference, threads = terms.terms_in_python, list[str]()

    def reading(text: str) -> list[str]:
        if len(text) > LONGEST_QUESTION:  # not the snippets of the results
            threads.append(threading.current_thread().name)
        return reference(text)

    monkeypatch.setattr(terms, "terms_in_python", reading)
    query = " ".join(map("wörd{}".format, range(1_800)))  # the compiled function reads ASCII
    answer = await desk.recall(RecallRequest(query=f"{query} saffron", min_confidence=0.0), ADA)
    assert [result.id for result in answer.results] == [name]
    assert answer.notes == ["the query has 1,801 different terms; the 64 rarest were searched"]
    assert {*threads} == {"index_0"}


@pytest.mark.parametrize("change", ["nothing", "another reader", "another document", "a deletion"])
async def test_an_answer_is_cached_until_something_changes(desk: Desk, change: str):
    await desk.observe("the pool was doubled")
    await desk.settle()
    recall, cached = Recall(desk.replica, desk.documents), list[None]()
    recall.on_cached = lambda: cached.append(None)
    request = RecallRequest(query="what about the pool?")
    (first,) = (await recall(request, ADA)).results
    if change == "another document":
        await desk.observe("the pool is small")
        await desk.settle()
    if change == "a deletion":  # before the index learns of it
        partition = desk.replica.partition_of(first.id)
        assert partition is not None
        await desk.redis.delete(PartitionKeys(partition).of_generation(1).doc(DocumentId(first.id)))
    answer = await recall(request, STRANGER if change == "another reader" else ADA)
    assert len(cached) == (change == "nothing")
    assert (first.id in [result.id for result in answer.results]) == (change in ("nothing", "another document"))
    recall.close()
