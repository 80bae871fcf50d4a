"""The model as the rest of the code sees it: three questions, each answered or `Skipped` with the reason.

Never more than `max_attempts` requests a question (options that a server turns out not to know are not counted), none
while the breaker is open, none that the tenant's daily budget does not cover.
"""

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeVar

from msgspec import Struct

from ingest.platform.clock import Clock, system_clock
from projections.condensing.llm import answers
from projections.condensing.llm.answers import Compression, CompressionReply, Graph, GraphReply, Summary, SummaryReply
from projections.condensing.llm.breaker import CLOSED, Breaker, State, enter, failed, succeeded
from projections.condensing.llm.budget import DailyBudget
from projections.condensing.llm.client import LlmClient, LlmRefused, LlmUnavailable, LlmUnusable
from projections.condensing.llm.prompts import Prompt, compress_prompt, extract_prompt, summarise_prompt
from projections.documents.observations import Observation

logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

MAX_ATTEMPTS = 2
"""A second try mends most broken replies; more would spend a budget on a model that cannot do it."""


class Reason(Enum):
    """Why a model was not asked or its answer not used."""

    OVER_BUDGET = "over budget"
    BREAKER_OPEN = "breaker open"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    INPUT_REFUSED = "input refused"
    UNUSABLE = "unusable"

    @property
    def of_the_input(self) -> bool:
        """Whether another text might fare better now: this one was refused or led to nothing usable."""
        return self in (Reason.INPUT_REFUSED, Reason.UNUSABLE)

    @property
    def of_the_tenant(self) -> bool:
        """Whether another tenant might fare better now."""
        return self is Reason.OVER_BUDGET


class Skipped(Struct, frozen=True):
    """There is no answer of a model: take the local way, and say so with `str()` of this."""

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value


class Assistant:
    """Asks one model within budget, breaker and attempt cap. One a process; safe for concurrent use on one event loop.

    Raises nothing of the model's; only Redis being away, where the budget is counted, reaches the caller.
    """

    def __init__(
        self,
        client: LlmClient,
        budget: DailyBudget,
        breaker: Breaker = CLOSED,
        clock: Clock = system_clock,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._client, self._budget, self._breaker = client, budget, breaker
        self._clock, self._max_attempts = clock, max_attempts

    @property
    def model(self) -> str:
        """The model's name, as recorded with every answer."""
        return self._client.model

    @property
    def breaker(self) -> Breaker:
        """What is known of the server's health."""
        return self._breaker

    async def compress(self, tenant: str, observation: Observation) -> Compression | Skipped:
        """The short form of one observation."""
        return await self._ask(tenant, compress_prompt(observation), CompressionReply, answers.compression)

    async def summarise(self, tenant: str, observations: Sequence[Observation]) -> Summary | Skipped:
        """What a session was about, from its observations in order."""
        return await self._ask(tenant, summarise_prompt(observations), SummaryReply, answers.summary)

    async def extract(self, tenant: str, texts: Sequence[str]) -> Graph | Skipped:
        """The things that texts name and how they are related."""
        return await self._ask(tenant, extract_prompt(texts), GraphReply, answers.graph)

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._client.aclose()

    async def _ask(
        self, tenant: str, prompt: Prompt, reply: type[R], keep: Callable[[R, str, str], T | None]
    ) -> T | Skipped:
        skipped = Skipped(Reason.UNAVAILABLE, "never asked")
        for _ in range(self._max_attempts):
            kept = await self._attempt(tenant, prompt, reply, keep)
            if not isinstance(kept, Skipped):
                return kept
            skipped = kept
            if skipped.reason not in (Reason.UNAVAILABLE, Reason.UNUSABLE):
                break
        return skipped

    async def _attempt(
        self, tenant: str, prompt: Prompt, reply: type[R], keep: Callable[[R, str, str], T | None]
    ) -> T | Skipped:
        """One request. A caller that is cancelled leaves its estimate in the budget: the server may have worked."""
        reserved = await self._budget.reserve(tenant, prompt.tokens)
        if reserved is None:
            return Skipped(Reason.OVER_BUDGET, f"{self._budget.tokens} tokens a day, and {prompt.tokens} more needed")
        entered = enter(self._breaker, self._clock())
        if entered is None:
            await self._budget.settle(reserved, 0)
            return Skipped(Reason.BREAKER_OPEN, "the server failed just before and is left alone")
        self._breaker = entered
        used = 0
        try:
            answer = await self._client.ask(prompt, reply)
            used = answer.tokens
            kept = keep(answer.value, self.model, prompt.version)
            if kept is None:
                raise LlmUnusable(self.model, "the answer says nothing", used)
        except LlmUnavailable as error:
            used = reserved.tokens if error.maybe_billed else 0
            self._fail(error)
            kept = Skipped(Reason.UNAVAILABLE, str(error))
        except LlmRefused as error:
            self._breaker = succeeded(self._breaker)
            kept = Skipped(Reason.INPUT_REFUSED if error.blames_input else Reason.REFUSED, str(error))
        except LlmUnusable as error:
            used = error.tokens
            self._breaker = succeeded(self._breaker)
            kept = Skipped(Reason.UNUSABLE, str(error))
        else:
            self._breaker = succeeded(self._breaker)
        await self._budget.settle(reserved, used)
        return kept

    def _fail(self, error: LlmUnavailable) -> None:
        before = self._breaker.state
        self._breaker = failed(self._breaker, self._clock())
        if self._breaker.state is State.OPEN and before is not State.OPEN:
            logger.warning("the language model is left alone for a while: %s", error)
