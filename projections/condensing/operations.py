"""All condensing operations, with their dependencies."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, convert

from ingest.nouns.command import Caller
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from ingest.platform.settings import Settings
from projections.condensing.consolidation import Consolidated, condense_pair, consolidate
from projections.condensing.crystals import crystallize
from projections.condensing.insights import Reflected, reflect, reflect_slots, suggest
from projections.condensing.rules import suggest_rules
from projections.condensing.summaries import SessionSummaries
from projections.nouns.access import Reader
from projections.nouns.observation import Observation
from projections.operations.current import Current, Writing

if TYPE_CHECKING:
    from projections.condensing.llm.assistant import Assistant

SUMMARISED_AT_ONCE = 8
"""Sessions that the rules summarize at a time: most of the time of a summary is waiting for the log and for threads."""


def check_model(settings: Settings) -> None:
    """Raise InvalidSetting, naming the variable, for settings that no assistant can be built of; opens nothing."""
    if settings.llm or settings.llm_key or settings.llm_daily_tokens:
        from projections.condensing.llm.assistant import check  # the rules need no model

        check(settings.llm, settings.llm_key or "", settings.llm_daily_tokens)


def build_assistant(settings: Settings, redis: Client) -> "Assistant | None":
    """Return the assistant that the settings name, None without one; raises as `check_model`."""
    if not settings.llm:
        return None
    from projections.condensing.llm.assistant import build, parse_daily_tokens

    return build(settings.llm, settings.llm_key or "", parse_daily_tokens(settings.llm_daily_tokens), redis)


class ProjectOrder(Struct, frozen=True, kw_only=True):
    """An order to consolidate a project or to reflect on it, which a job carries out. `amount`: the fewest important
    observations that are consolidated, or the most clusters of insights."""

    what: Literal["consolidate", "reflect"]
    project: str
    amount: int
    reader: Reader
    caller: Caller


class Condensing:
    """Makes summaries, crystals, consolidated memories, insights; condenses what has grown too many."""

    def __init__(self, current: Current, assistant: "Assistant | None" = None, clock: Clock = system_clock) -> None:
        """`assistant` is the model that summaries are made by; without one, the rules make them."""
        self._current = current
        self.at_once = 1 if assistant else SUMMARISED_AT_ONCE
        self.summarise = SessionSummaries(current, assistant, self._suggest).summarise
        self.reflect_slots = partial(reflect_slots, current, clock)
        self.crystallize = partial(crystallize, current, clock)
        self.consolidate = partial(consolidate, current)
        self.reflect = partial(reflect, current, clock)
        self.condense_pair = partial(condense_pair, current)

    async def _suggest(
        self, reader: Reader, project: str, observations: Sequence[Observation], writing: Writing
    ) -> None:
        await suggest(self._current, reader, project, observations, writing)
        await suggest_rules(self._current, reader, project, observations, writing)

    async def carry_out(self, order: Any) -> Consolidated | Reflected:
        """Carry out a ProjectOrder, as a job queue hands it on. Repeating it makes nothing twice."""
        order = convert(order, ProjectOrder)
        if order.what == "reflect":
            return await self.reflect(order.reader, order.project, order.caller, order.amount)
        return await self.consolidate(order.reader, order.project, order.caller, fewest_observations=order.amount)
