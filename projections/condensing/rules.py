"""Rules that users state in prompts: suggested at first, in force once they are repeated, standing or confirmed."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ingest.commands.decide import ConfirmMemory, Remember, ReviseMemory
from projections.condensing.summaries import fingerprint
from projections.nouns.access import Reader
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.trust import is_stated
from projections.operations.current import Current, Writing
from projections.operations.memory import MemoryChanges, revision_of
from projections.queries.rules import rules_of
from projections.text.accounts import user_words
from projections.text.wishes import Relation, Wish, relation, wishes_of

MOST_WISHES = 50
"""Of one summary, the newest; each may wait until the wish before it is projected."""


class Stated(NamedTuple):
    """A wish, and the prompt that states it."""

    wish: Wish
    prompt: Observation


def stated_in(observations: Iterable[Observation]) -> list[Stated]:
    """Returns the wishes in the prompts of users, but not in imported ones, in the order of the observations."""
    prompts = [item for item in observations if item.turn == "user" and is_stated(item)]
    return [Stated(wish, prompt) for prompt in prompts for wish in wishes_of(user_words(prompt))]


def earlier_rule(stated: Stated, rules: Iterable[Memory]) -> tuple[Memory | None, Relation]:
    """Returns the newest rule about the same subject as a wish, and how the wish relates to it."""
    for rule in rules:
        if related := relation(stated.wish.text, rule.content):
            return rule, related
    return None, ""


async def suggest_rules(
    current: Current, reader: Reader, project: str, observations: Sequence[Observation], writing: Writing
) -> None:
    """Store the wishes of users in these observations, in time order, as rules.

    A wish that repeats a rule confirms it; one that names another value takes its place. A rejected rule, which is in
    quarantine, is not suggested again.
    """
    rules: list[Memory] | None = None
    for stated in (await asyncio.to_thread(stated_in, observations))[-MOST_WISHES:]:
        if rules is None:
            await current.settle_project(reader.tenant, project)
            everything = await rules_of(current.documents, reader._replace(operator=True), project)
            public = [rule for rule in everything if rule.visibility == "public"]
            rules = [rule for rule in public if reader.only_agent in ("", rule.agent_id)]
        if await _state(stated, rules, project, writing):
            rules = None  # the next wish may be about the same


async def _state(stated: Stated, rules: Sequence[Memory], project: str, writing: Writing) -> bool:
    """Store a wish; returns whether that wrote something."""
    wish, prompt = stated
    rule, related = earlier_rule(stated, rules)
    name = fingerprint(prompt.id, wish.text)
    if rule is not None and (prompt.id in rule.derived_from or prompt.occurred_at < rule.occurred_at):
        return False  # read again, with the session's next summary
    if rule is not None and related == "repeats":
        if not rule.quarantined:
            await writing.give(ConfirmMemory(event_id=f"wish-again:{name}", project=project, memory=rule.id))
        return not rule.quarantined
    if rule is not None and not (rule.quarantined or rule.mandatory):
        revised = await writing.give(_revision(rule, stated, f"wish:{name}"))
        await writing.give(ConfirmMemory(event_id=f"wish-again:{name}", project=project, memory=revised.id))
        return True
    command = Remember(
        event_id=f"wish:{name}",
        project=project,
        user_id=prompt.user_id,
        content=wish.text,
        memory_type="rule",
        derived_from=[prompt.id],
        trust=prompt.trust,
        occurred_at=prompt.occurred_at,
    )
    remembered = await writing.give(command)
    if wish.is_standing:
        await writing.give(ConfirmMemory(event_id=f"standing:{name}", project=project, memory=remembered.id))
    return True


def _revision(rule: Memory, stated: Stated, event_id: str) -> ReviseMemory:
    wish, prompt = stated
    changed = revision_of(rule, MemoryChanges(event_id=event_id, content=wish.text), Reader(rule.tenant, operator=True))
    return replace(changed, derived_from=[prompt.id], occurred_at=prompt.occurred_at, trust=prompt.trust)
