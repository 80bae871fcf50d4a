"""The interface to the model: three kinds of requests, each answered or `Skipped` with the reason.

Never more than `max_attempts` requests a question (options that a server turns out not to know are not counted), none
while the circuit breaker is open (after some failures in a short time no caller asks for a while, then one tries),
none that the tenant's daily budget, counted in Redis, does not cover.

| setting | value |
|---|---|
| `MNEMOLOG_LLM` | `<base URL>\\|<model>`; empty: no language model |
| `MNEMOLOG_LLM_KEY` | sent as a bearer token; empty: none |
| `MNEMOLOG_LLM_DAILY_TOKENS` | tokens a tenant may spend a UTC day, or `unlimited` |
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import InvalidSetting
from ingest.log.keys import llm_budget
from ingest.log.scripts import Script
from ingest.platform.addresses import is_http
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from projections.condensing.llm import answers
from projections.condensing.llm.answers import (
    Compression,
    CompressionReply,
    ExtractedGraph,
    GraphReply,
    LlmRefused,
    LlmUnavailable,
    LlmUnusable,
    ModelSummary,
    Prompt,
    SummaryReply,
    compress_prompt,
    extract_prompt,
    summarise_prompt,
)
from projections.nouns.observation import Observation

if TYPE_CHECKING:
    from projections.condensing.llm.client import LlmClient

BUDGET_TTL = timedelta(days=2)
"""A day, and time for calls that began in it to be settled."""
_NO_LIMIT = -1

_SPEND_TOKENS = Script("spend_tokens")


class Reservation(NamedTuple):
    """Tokens set aside for one call, on the day it began."""

    key: str
    tokens: int


@dataclass
class DailyBudget:
    """A limit of tokens for each tenant and UTC day; `None` counts without limit, 0 lets nothing through."""

    _redis: Client
    tokens: int | None
    _clock: Clock = system_clock

    async def reserve(self, tenant: str, tokens: int) -> Reservation | None:
        """Set tokens aside; None, and nothing is counted, when the day has not so many left."""
        key = llm_budget(tenant, self._clock().date().isoformat())
        limit = _NO_LIMIT if self.tokens is None else self.tokens
        return Reservation(key, tokens) if await self._spend(key, tokens, limit) else None

    async def settle(self, reservation: Reservation, used: int) -> None:
        """Count what a call really used, be it more or less than was reserved; 0 gives everything back."""
        if used != reservation.tokens:
            await self._spend(reservation.key, used - reservation.tokens, _NO_LIMIT)

    async def spent(self, tenant: str) -> int:
        """Tokens spent or set aside today."""
        return int(await self._redis.get(llm_budget(tenant, self._clock().date().isoformat())) or 0)

    async def _spend(self, key: str, tokens: int, limit: int) -> bool:
        ttl_s = int(BUDGET_TTL.total_seconds())
        return bool(await _SPEND_TOKENS.call(self._redis, (key,), (tokens, limit, ttl_s)))


FAILURES = 3
WINDOW = timedelta(seconds=60)
"""Failures further apart than this are bad luck, not an outage."""
PAUSE = timedelta(seconds=30)
"""How long to wait during an outage; also how long an unfinished trial request prevents others."""


class BreakerState(Enum):
    """CLOSED: every caller asks. OPEN: none does. HALF_OPEN: one caller asks, on trial for all."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker(Struct, frozen=True):
    """What is known of a server's health. `opened_at`: when it was opened, or the trial began; None while closed."""

    failures: tuple[datetime, ...] = ()
    opened_at: datetime | None = None
    state: BreakerState = BreakerState.CLOSED


CLOSED = Breaker()


def enter(breaker: Breaker, now: datetime) -> Breaker | None:
    """The breaker with one more caller asking, who must report by `succeeded` or `failed`; None: do not ask."""
    if breaker.opened_at is None:
        return breaker
    if now - breaker.opened_at < PAUSE:
        return None
    return replace(breaker, state=BreakerState.HALF_OPEN, opened_at=now)


def succeeded(breaker: Breaker) -> Breaker:
    """The breaker after an answer: a trial closes it; one asked before it opened does not."""
    return CLOSED if breaker.state is BreakerState.HALF_OPEN else breaker


def failed(breaker: Breaker, now: datetime) -> Breaker:
    """The breaker after no answer: opened again by a trial, opened by the last of FAILURES within WINDOW."""
    match breaker.state:
        case BreakerState.OPEN:
            return breaker
        case BreakerState.HALF_OPEN:
            return Breaker(opened_at=now, state=BreakerState.OPEN)
        case BreakerState.CLOSED:
            recent = (*(at for at in breaker.failures if now - at < WINDOW), now)
            if len(recent) >= FAILURES:
                return Breaker(opened_at=now, state=BreakerState.OPEN)
            return Breaker(failures=recent)


logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

MAX_ATTEMPTS = 2
"""A second attempt fixes most invalid replies; more would waste the budget on an unsuitable model."""


class SkipReason(Enum):
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
        return self in (SkipReason.INPUT_REFUSED, SkipReason.UNUSABLE)

    @property
    def of_the_tenant(self) -> bool:
        """Whether another tenant might fare better now."""
        return self is SkipReason.OVER_BUDGET


class Skipped(Struct, frozen=True):
    """There is no answer of a model: take the local way, and say so with `str()` of this."""

    reason: SkipReason
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value


class Assistant:
    """Asks one model within budget, breaker and attempt cap. One a process; safe for concurrent use on one event loop.

    Raises nothing of the model's; only Redis being away, where the budget is counted, reaches the caller.
    """

    def __init__(
        self,
        client: "LlmClient",
        budget: DailyBudget,
        clock: Clock = system_clock,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._client, self._budget, self._breaker = client, budget, CLOSED
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

    async def summarise(self, tenant: str, observations: Sequence[Observation]) -> ModelSummary | Skipped:
        """What a session was about, from its observations in order."""
        return await self._ask(tenant, summarise_prompt(observations), SummaryReply, answers.summary)

    async def extract(self, tenant: str, texts: Sequence[str]) -> ExtractedGraph | Skipped:
        """The things that texts name and how they are related."""
        return await self._ask(tenant, extract_prompt(texts), GraphReply, answers.graph)

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._client.aclose()

    async def _ask(
        self, tenant: str, prompt: Prompt, reply: type[R], bound: Callable[[R, str, str], T | None]
    ) -> T | Skipped:
        skipped = Skipped(SkipReason.UNAVAILABLE, "never asked")
        for _ in range(self._max_attempts):
            answer = await self._attempt(tenant, prompt, reply, bound)
            if not isinstance(answer, Skipped):
                return answer
            skipped = answer
            if skipped.reason not in (SkipReason.UNAVAILABLE, SkipReason.UNUSABLE):
                break
        return skipped

    async def _attempt(
        self, tenant: str, prompt: Prompt, reply: type[R], bound: Callable[[R, str, str], T | None]
    ) -> T | Skipped:
        """One request. A canceled caller leaves its estimate in the budget: the server may have worked."""
        reserved = await self._budget.reserve(tenant, prompt.tokens)
        if reserved is None:
            return Skipped(
                SkipReason.OVER_BUDGET,
                f"the budget is {self._budget.tokens} tokens a day, and {prompt.tokens} more are needed",
            )
        entered = enter(self._breaker, self._clock())
        if entered is None:
            await self._budget.settle(reserved, 0)
            return Skipped(SkipReason.BREAKER_OPEN, "the server failed recently and is not called for now")
        self._breaker = entered
        try:
            answer = await self._client.ask(prompt, reply)
            used, bounded = answer.tokens, bound(answer.value, self.model, prompt.version)
            if bounded is None:
                raise LlmUnusable(self.model, "the reply is empty", used)
        except LlmUnavailable as error:
            used, bounded = reserved.tokens if error.maybe_billed else 0, Skipped(SkipReason.UNAVAILABLE, str(error))
            before, self._breaker = self._breaker.state, failed(self._breaker, self._clock())
            if self._breaker.state is BreakerState.OPEN and before is not BreakerState.OPEN:
                logger.warning("the language model is not called for a while: %s", error)
        except LlmRefused as error:
            self._breaker = succeeded(self._breaker)
            reason = SkipReason.INPUT_REFUSED if error.blames_input else SkipReason.REFUSED
            used, bounded = 0, Skipped(reason, str(error))
        except LlmUnusable as error:
            self._breaker = succeeded(self._breaker)
            used, bounded = error.tokens, Skipped(SkipReason.UNUSABLE, str(error))
        else:
            self._breaker = succeeded(self._breaker)
        await self._budget.settle(reserved, used)
        return bounded


DEFAULT_DAILY_TOKENS = 1_000_000
"""About 400 long observations, well under a dollar with a small hosted model, so no bill is a surprise."""
UNLIMITED = "unlimited"


class ModelEndpoint(NamedTuple):
    """A model of a server."""

    url: str
    model: str


def parse_endpoint(setting: str) -> ModelEndpoint | None:
    """The endpoint a setting names, None for an empty one; raises InvalidSetting naming MNEMOLOG_LLM.

    The message does not repeat the setting: a password may be in its URL.
    """
    if not setting.strip():
        return None
    url, _, model = (part.strip() for part in setting.partition("|"))
    try:
        parts = urlsplit(url)
        valid = is_http(parts)
    except ValueError:
        raise InvalidSetting("MNEMOLOG_LLM has an invalid URL; write <base URL>|<model>") from None
    if not valid or not model:
        raise InvalidSetting("MNEMOLOG_LLM must be <base URL>|<model>, such as http://127.0.0.1:11434/v1|llama3.2")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidSetting("MNEMOLOG_LLM accepts only a base URL; put the key in MNEMOLOG_LLM_KEY")
    return ModelEndpoint(url.rstrip("/"), model)


def parse_daily_tokens(setting: str) -> int | None:
    """Tokens a tenant and day, None for `unlimited`; raises InvalidSetting naming MNEMOLOG_LLM_DAILY_TOKENS."""
    value = setting.strip().lower()
    if not value:
        return DEFAULT_DAILY_TOKENS
    if value == UNLIMITED:
        return None
    if not (value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 53):
        raise InvalidSetting(f"MNEMOLOG_LLM_DAILY_TOKENS={setting!r} is neither a positive number nor {UNLIMITED}")
    return int(value)


def check(setting: str, key: str, daily_tokens: str) -> None:
    """Raise InvalidSetting, naming the variable, for settings that no assistant can be built of; opens nothing."""
    parse_endpoint(setting)
    parse_daily_tokens(daily_tokens)
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise InvalidSetting("MNEMOLOG_LLM_KEY contains characters that are not allowed in a header")


def build(
    setting: str, key: str, daily_tokens: int | None, redis: Client, clock: Clock = system_clock
) -> Assistant | None:
    """The assistant a setting names, None for an empty one; InvalidSetting for one that cannot be.

    `daily_tokens`: None is no limit.
    """
    endpoint = parse_endpoint(setting)
    if endpoint is None:
        return None
    check(setting, key, "")
    from projections.condensing.llm.client import LlmClient  # loads an HTTP client

    client = LlmClient(endpoint.url, endpoint.model, api_key=key)
    return Assistant(client, DailyBudget(redis, daily_tokens, clock), clock=clock)
