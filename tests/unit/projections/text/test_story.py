"""The story of a session: decisions in force, open work, exchanges."""

from typing import Any

import pytest

from projections.text.story import Entry, Story, is_work, story_of
from projections.text.turns import Turn

Turns = list[Any]
ANSWERS = {
    "en": "The cart answers in 80 ms. We decided to keep Redis as the team knows it. The admin page is still open.",
    "de": "Der Warenkorb antwortet in 80 ms. Wir haben entschieden, Redis zu behalten. Offen ist noch die Adminseite.",
    "es": "El carrito responde en 80 ms. Decidimos mantener Redis. Queda pendiente la página de administración.",
    "fr": "Le panier répond en 80 ms. Nous avons décidé de garder Redis. Il reste à faire la page d'administration.",
    "pt": "O carrinho responde em 80 ms. Decidimos manter o Redis. Falta ainda a página de administração.",
    "it": "Il carrello risponde in 80 ms. Abbiamo deciso di tenere Redis. Resta da fare la pagina di amministrazione.",
    "ru": "Корзина отвечает за 80 мс. Мы решили оставить Redis. Осталось сделать страницу администратора.",
    "zh": "购物车现在80毫秒就能响应。我们决定保留Redis，因为团队熟悉它。还没做的是管理页面。",
    "ja": "カートは80ミリ秒で応答します。Redisを使い続けることに決めました。管理画面はまだ残っています。",
    "ko": "장바구니가 80ms 안에 응답합니다. Redis를 유지하기로 결정했습니다. 관리자 페이지는 아직 남아 있습니다.",
}
DENIALS = [
    "I decided nothing yet.", "Kafka was not decided on.", "Nothing remains.", "No decision was made about Kafka.",
    "We need to decide about Kafka first.", "Zero issues remain, 0 issues remaining.", "Have we decided on Kafka?",
    "Ich habe noch nichts entschieden.", "Für Kafka haben wir uns nicht entschieden.", "Es bleibt nichts zu tun.",
    "Todavía no decidí nada.", "No queda nada pendiente.", "Je n'ai encore rien décidé.",
    "Il ne reste plus rien à faire.",
    "Ainda não decidi nada.", "Não falta nada.", "Non ho ancora deciso nulla.", "Non resta nulla da fare.",
    "Я ещё ничего не решил.", "Ничего не осталось.", "我还没有决定。", "没有剩下的工作。", "まだ何も決めていません。",
    "残っていません。", "아직 아무것도 결정하지 않았습니다.", "남은 일이 없습니다.",
]  # fmt: skip


def said(*answers: str) -> Story:
    """The story of prompts with these answers of the agent."""
    turns: Turns = []
    for answer in answers:
        turns += [("user", "Go on."), ("agent", answer)]
    return story_of(turns)


def texts(entries: list[Entry]) -> list[str]:
    return [entry.text for entry in entries]


@pytest.mark.parametrize("language", ANSWERS)
def test_decision_and_open_work_are_found_in_ten_languages(language: str):
    story = said(ANSWERS[language])
    assert (len(story.decisions), len(story.remaining)) == (1, 1)
    assert "Redis" in story.decisions[0].text
    assert "Redis" not in story.remaining[0].text


@pytest.mark.parametrize("sentence", DENIALS)
def test_denial_is_neither_a_decision_nor_open_work(sentence: str):
    story = said(sentence)
    assert (story.decisions, story.remaining) == ([], [])


def test_later_decision_replaces_an_earlier_one_on_its_subject():
    story = said(
        "We decided to keep sessions in Redis.",
        "We decided that tokens expire after 15 minutes.",
        "Correction: sessions move from Redis to Postgres after all.",
    )
    assert texts(story.decisions) == [
        "We decided that tokens expire after 15 minutes.",
        "Correction: sessions move from Redis to Postgres after all.",
    ]


def test_open_point_goes_when_it_is_done():
    story = said(
        "Still open: rate limit headers on the admin API.\nStill to do: pagination of the audit log.",
        "The admin API sends rate limit headers; 3 tests pass.",
    )
    assert texts(story.remaining) == ["Still to do: pagination of the audit log."]
    assert said("Still open: the audit log.", "Everything is done now.").remaining == []


def test_items_below_a_heading_are_what_the_heading_says():
    story = said("## Decisions\n- Redis for sessions\n- No backfill of old keys\n\n## Next steps\n- Deploy on Friday")
    assert texts(story.decisions) == ["Redis for sessions", "No backfill of old keys"]
    assert texts(story.remaining) == ["Deploy on Friday"]


def test_words_of_subagents_tools_and_the_host_are_not_the_sessions():
    turns: Turns = [
        ("user", "Speed up the search"),
        ("subagent", "We decided to drop Elasticsearch. Still open: the index."),
    ]
    turns += [("tool", "We decided to close."), ("harness", "We decided that."), ("agent", "The search is fast.")]
    story = story_of(turns)
    assert (story.decisions, story.remaining) == ([], [])
    assert [(it.request, it.answer) for it in story.exchanges] == [("Speed up the search", "The search is fast.")]


SUBJECTS = [
    "session store", "rate limiter", "audit log", "search index", "login form", "invoice export", "cache headers",
    "error pages", "mail queue", "feature flags",
]  # fmt: skip
CHOICES = ["Redis", "token bucket", "Parquet", "trigrams", "passkeys", "CSV", "etags", "templates", "Sidekiq", "YAML"]


def test_two_hundred_turns_keep_all_decisions_in_force_and_all_open_work():
    """Ten decisions of which three are replaced, ten open points of which four get done."""
    turns: Turns = []
    for n, (subject, choice) in enumerate(zip(SUBJECTS, CHOICES, strict=True)):
        turns += [("user", f"Work on the {subject}."), ("agent", f"We decided to use {choice} for the {subject}.")]
        turns += [("user", "Go on."), ("agent", f"Still to do: document the {subject} for operators.")]
        turns += [("tool", "ok")] * 12
        turns += [("user", f"How is build {n}?"), ("agent", f"Build {n} passes with {n + 3} tests.")]
    for subject, choice in [("session store", "Postgres"), ("mail queue", "SQS"), ("login form", "passwords")]:
        turns += [("user", "Change it."), ("agent", f"The {subject} now uses {choice} instead.")]
    for subject in SUBJECTS[1:5]:
        turns += [("user", "Do it."), ("agent", f"The {subject} is documented for operators.")]
    story = story_of(turns)
    decided, left = texts(story.decisions), texts(story.remaining)
    assert len(turns) >= 190
    assert [any(choice in text for text in decided) for choice in CHOICES] == [
        choice not in ("Redis", "Sidekiq", "passkeys") for choice in CHOICES
    ]
    assert [any(subject in text for text in left) for subject in SUBJECTS] == [
        subject not in SUBJECTS[1:5] for subject in SUBJECTS
    ]


@pytest.mark.parametrize(
    ("turn", "text", "works"),
    [
        ("user", "hi", False),
        ("agent", "Hello! What would you like to work on?", False),
        ("agent", "Working. What next?", False),
        ("user", "May I deploy the refund branch to the staging cluster today?", False),
        ("agent", "The limiter is a token bucket of 50 per second per key, as the window cost 9 ms.", True),
        ("tool", "", True),
        ("harness", "Monitor event: CI failures on the pull request 6342 of the team", False),
    ],
)
def test_greetings_tests_and_questions_are_no_work(turn: Turn, text: str, works: bool):
    assert is_work(turn, text) is works
