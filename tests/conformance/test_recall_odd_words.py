"""Recall of questions of nothing but stop words, of versions, addresses and paths, on a real server."""

import pytest
from desk import ADA, Desk
from factories import PROJECT

from projections.queries.recall import RecallRequest

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
    ("query", "said"),
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
async def test_a_question_of_stop_words_finds_the_text_that_says_them(desk: Desk, query: str, said: str):
    for text in [said, *OTHERS] if query != "it" else [said, *OTHERS[1:]]:
        await desk.observe(text)
    await desk.settle()
    assert await first(desk, query) == said


@pytest.mark.parametrize(
    ("query", "said", "other"),
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
    desk: Desk, query: str, said: str, other: str
):
    for text in (other, other.replace("now", "then"), said, other.replace("today", "still")):
        await desk.observe(text)
    await desk.settle()
    assert await first(desk, query) == said
