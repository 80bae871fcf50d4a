"""What users want every time, read from their prompts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from projections.text.wishes import relation, wishes_of

WISHES: dict[str, Any] = json.loads((Path(__file__).parents[4] / "benchmarks/data/wishes/wishes.json").read_bytes())


def prompts_of(project: str) -> Iterator[str]:
    for session in WISHES[project]["sessions"]:
        yield from session


@pytest.mark.parametrize(
    "prompt",
    [
        "never push to main",
        "from now on answer me in French",
        "every endpoint needs a test",
        "don't delete files without asking",
        "ab jetzt bitte alle Texte auf Deutsch",
        "siempre usa comillas simples",
        "désormais, écris les messages en français",
        "a partir de agora escreva os testes antes do código",
        "d'ora in poi i commenti sono in inglese",
        "отныне пиши сообщения коммитов по-русски",
        "以后请用中文写注释",
        "今後はコメントを日本語で書いてください",
        "앞으로 커밋 메시지는 한국어로 작성해 주세요",
    ],
)
def test_a_prompt_that_holds_from_now_on_is_a_standing_wish(prompt: str):
    (wish,) = wishes_of(prompt)
    assert wish.is_standing


@pytest.mark.parametrize(
    "prompt",
    [
        "I prefer small functions over long ones",
        "use pnpm, not npm",
        "keep functions under 40 lines",
        "wir verwenden kein ORM",
    ],
)
def test_a_prompt_that_prefers_something_is_a_wish_that_may_hold_for_the_task_alone(prompt: str):
    (wish,) = wishes_of(prompt)
    assert not wish.is_standing


@pytest.mark.parametrize(
    "prompt",
    [
        "run the tests",
        "should we always run the linter first?",
        "use tabs, not spaces, for now",
        "the api always answers 200 even when the berth is unknown. look into that",
        "we never see anything until a customer calls",
        "/review never mind",
        "I never got an answer from the server",
        "never " + "and never again " * 40,
        "thanks, done for today",
    ],
)
def test_a_request_a_report_and_a_question_are_no_wishes(prompt: str):
    assert list(wishes_of(prompt)) == []


def test_a_wish_is_stated_without_the_words_that_lead_to_it():
    assert [wish.text for wish in wishes_of("ok. and please never push to main")] == ["never push to main"]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("split it, under 300 lines as I said", "keep pull requests under 300 lines", "repeats"),
        (
            "keep pull requests under 200 lines",
            "keep pull requests under 300 lines, I review them by train",
            "replaces",
        ),
        ("staging is on 8090 now", "staging is on 8080, check the build there", "replaces"),
        ("use spaces, not tabs", "use tabs, not spaces", "replaces"),
        ("releases go out on Thursdays only", "releases go out on Tuesdays only", "replaces"),
        ("money is Decimal, never float", "use Decimal for money, never float64", "repeats"),
        ("never push to main", "don't add a dependency without asking me", ""),
        ("every migration needs a down step", "every endpoint needs a test", ""),
    ],
)
def test_a_later_wish_repeats_or_replaces_an_earlier_one_on_its_subject(new: str, old: str, expected: str):
    assert relation(new, old) == expected


def test_a_rule_of_a_page_is_compared_by_its_beginning():
    page = "keep pull requests under 300 lines. " + "Because of the review. " * 50_000
    assert relation("keep pull requests under 200 lines", page) == "replaces"


@pytest.mark.parametrize("project", WISHES)
def test_nine_of_ten_wishes_of_written_projects_are_read(project: str):
    texts = [wish.text for prompt in prompts_of(project) for wish in wishes_of(prompt)]
    wishes: list[list[str]] = WISHES[project]["in_force"]
    read = [wish for wish in wishes if any(re.search(wish[0], text, re.IGNORECASE) for text in texts)]
    assert len(read) >= 0.9 * len(wishes)
