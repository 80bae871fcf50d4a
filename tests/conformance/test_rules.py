"""Rules that users state in prompts: from the prompt to the context of the next session, against a real Valkey."""

import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller, ConfirmMemory, Quarantine, Remember, TrackSession
from ingest.errors import NotFound, OutsideKeyScope
from ingest.roles import KeyScope
from projections.condensing.operations import Condensing
from projections.condensing.summaries import rejected
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader
from projections.nouns.lesson import Lesson, lessons
from projections.nouns.memory import Memory
from projections.operations.inbox import Decision, Inbox, Suggestion
from projections.queries.context import compile_context, rules_block, wishes_block
from projections.queries.rules import Rules, rules_for

WISHES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "benchmarks/data/wishes/wishes.json").read_bytes())
READER = Reader(TENANT)
CALLER = Caller(TENANT, agent_id="ada")
PUSH = "never push to main"
LINES = "keep pull requests under {} lines"


async def session(shop: Workshop, name: str, *prompts: str) -> None:
    """A session of these prompts, which ended and was summarized."""
    for prompt in prompts:
        await shop.observe("", name, kind="prompt_submit", data={"prompt": prompt})
    await shop.say(TrackSession(project="atlas", session_id=name, status="ended"))
    await shop.project()
    assert await shop.upkeep().summarise() == 1
    await shop.project()


async def rules(shop: Workshop, project: str = "atlas") -> Rules:
    return await rules_for(shop.documents, READER, project)


def texts(memories: list[Memory]) -> list[str]:
    return [memory.content for memory in memories]


async def test_a_wish_that_holds_from_now_on_is_a_rule_with_its_prompt_as_evidence(shop: Workshop):
    await session(shop, "s1", "fix the login", PUSH)
    (rule,) = (await rules(shop)).in_force
    assert (rule.content, rule.memory_type, rule.mandatory) == (PUSH, "rule", False)
    (source,) = rule.derived_from
    assert source.startswith("obs_")


async def test_a_wish_that_was_stated_once_is_suggested_until_another_session_repeats_it(shop: Workshop):
    await session(shop, "s1", LINES.format(300))
    first = await rules(shop)
    assert (texts(first.in_force), texts(first.suggested)) == ([], [LINES.format(300)])
    await session(shop, "s2", "under 300 lines as I said, split it")
    second = await rules(shop)
    assert (texts(second.in_force), texts(second.suggested)) == ([LINES.format(300)], [])


async def test_a_suggested_rule_that_somebody_confirms_is_in_force(shop: Workshop):
    await session(shop, "s1", LINES.format(300))
    (suggested,) = (await rules(shop)).suggested
    await shop.say(ConfirmMemory(project="atlas", memory=suggested.id))
    await shop.project()
    assert texts((await rules(shop)).in_force) == [LINES.format(300)]


async def test_a_wish_with_another_value_replaces_the_rule_and_goes_with_its_session(shop: Workshop):
    await session(shop, "s1", LINES.format(300))
    await session(shop, "s2", LINES.format(200))
    assert texts((await rules(shop)).in_force) == [LINES.format(200)]
    await Forgetting(shop.another_current()).session(await shop.session("s2"), CALLER)
    await shop.project()
    left = await rules(shop)
    assert texts([*left.in_force, *left.suggested]) == [LINES.format(300)]


async def test_a_mandatory_rule_is_not_replaced_by_a_prompt(shop: Workshop):
    await shop.say(Remember(project="atlas", content=LINES.format(300), memory_type="rule", mandatory=True))
    await session(shop, "s1", LINES.format(900))
    after = await rules(shop)
    assert (texts(after.in_force), texts(after.suggested)) == ([LINES.format(300)], [LINES.format(900)])


async def test_a_summary_made_again_states_no_rule_twice(shop: Workshop):
    await session(shop, "s1", PUSH, LINES.format(300))
    before = await rules(shop)
    await session(shop, "s1", "run the tests")
    assert await rules(shop) == before


async def test_a_rule_of_every_project_is_in_force_in_each_and_needs_an_admin(shop: Workshop):
    command = Remember(project="*", content=PUSH, memory_type="rule", mandatory=True)
    with pytest.raises(OutsideKeyScope, match="need the admin role"):
        await shop.current.give(command, CALLER._replace(key_scope=KeyScope(is_admin=False)))
    await shop.current.give(command, CALLER)
    await shop.project()
    assert texts((await rules(shop, "another")).in_force) == [PUSH]


@pytest.mark.parametrize("project", WISHES)
async def test_the_first_300_tokens_of_a_context_tell_the_wishes_in_force_and_no_replaced_one(
    shop: Workshop, project: str
):
    for number, prompts in enumerate(WISHES[project]["sessions"]):
        await session(shop, f"s{number}", *prompts)
    current = await rules(shop)
    context = compile_context("atlas", [rules_block(current.in_force), wishes_block(current.suggested)], 300)
    wishes: list[list[str]] = WISHES[project]["in_force"]
    shown = [wish for wish in wishes if any(re.search(phrase, context.context, re.IGNORECASE) for phrase in wish)]
    assert len(shown) >= 0.9 * len(wishes)
    assert not [phrase for phrase in WISHES[project]["replaced"] if phrase in context.context]


async def inbox(shop: Workshop) -> list[Suggestion]:
    return await Inbox(shop.current).suggestions(READER, "atlas", 20)


async def decide(shop: Workshop, name: str, decision: Literal["approve", "reject"], content: str = "") -> None:
    await Inbox(shop.current).decide(name, Decision(decision=decision, content=content), READER, CALLER)
    await shop.project()


async def test_the_inbox_lists_a_suggested_rule_with_its_prompt_until_it_is_approved(shop: Workshop):
    await session(shop, "s1", LINES.format(300), PUSH)
    (suggestion,) = await inbox(shop)
    assert (suggestion.kind, suggestion.text) == ("rule", LINES.format(300))
    assert [LINES.format(300) in source.text for source in suggestion.evidence] == [True]
    await decide(shop, suggestion.id, "approve")
    assert await inbox(shop) == []
    assert set(texts((await rules(shop)).in_force)) == {LINES.format(300), PUSH}
    with pytest.raises(NotFound):
        await decide(shop, suggestion.id, "reject")


async def test_a_suggestion_approved_with_another_text_is_in_force_with_that_text(shop: Workshop):
    await session(shop, "s1", LINES.format(300))
    (suggestion,) = await inbox(shop)
    await decide(shop, suggestion.id, "approve", "Pull requests have at most 300 lines.")
    assert texts((await rules(shop)).in_force) == ["Pull requests have at most 300 lines."]


async def test_a_rejected_suggestion_is_neither_listed_nor_suggested_again(shop: Workshop):
    await session(shop, "s1", LINES.format(300))
    (suggestion,) = await inbox(shop)
    await decide(shop, suggestion.id, "reject")
    await session(shop, "s2", LINES.format(300))
    assert await inbox(shop) == []
    assert texts((await rules(shop)).in_force) == []


async def test_a_rejected_fact_is_not_made_again_of_more_sessions(shop: Workshop):
    async def made(count: int) -> list[str]:
        for number in range(count):
            name = f"{count}-{number}"
            await shop.observe("We decided that the gateway is restarted after every deploy.", name, kind="decision")
            await shop.say(TrackSession(project="atlas", session_id=name, status="ended"))
        await shop.project()
        assert await shop.upkeep().summarise() == count
        await shop.project()
        await Condensing(shop.current, clock=shop.clock).consolidate(READER, "atlas", CALLER, fewest_observations=1)
        await shop.project()
        return [suggestion.id for suggestion in await inbox(shop)]

    first = await made(6)
    assert first
    for name in first:
        await decide(shop, name, "reject")
    assert await made(3) == []


async def test_a_lesson_rejected_for_another_agent_gives_an_isolated_agent_nothing(shop: Workshop):
    lesson = "The login test failed because its token had expired. The clock of the login test is frozen now."
    own = await shop.learn(lesson, agent_id="eve")
    await shop.project()
    await shop.say(Quarantine(project="atlas", document=own.id))
    await shop.project()
    listing = lessons(TENANT, "atlas")
    isolated = Reader(TENANT, "ada", "isolated")
    assert await rejected(shop.documents, listing, Lesson, 10, isolated) == []
    assert [one.id for one in await rejected(shop.documents, listing, Lesson, 10, READER)] == [own.id]
