"""The registry of numbers against a real Valkey.

Left open: which numbers two processes get that name something new at the same moment; only that they differ.
"""

import asyncio
from typing import cast, get_args

import pytest
from factories import TENANT

from ingest.platform.connections import Client
from projections.queries.listed import AT_ONCE, IntegerIds, Noun


@pytest.fixture
def observations(redis: Client) -> IntegerIds:
    return IntegerIds(redis, TENANT, "observation")


def names(count: int, first: int = 0) -> list[str]:
    return [f"obs_{n:020x}" for n in range(first, first + count)]


async def test_numbers_begin_at_one_and_follow_the_order_of_first_sight(observations: IntegerIds):
    assert await observations.numbers(["obs_b", "obs_a"]) == [1, 2]
    assert await observations.numbers(["obs_a", "obs_c", "obs_b"]) == [2, 3, 1]


async def test_a_name_twice_in_one_call_has_one_number(observations: IntegerIds):
    assert await observations.numbers(["obs_a", "obs_b", "obs_a", "obs_c"]) == [1, 2, 1, 3]


async def test_a_number_leads_back_to_its_name(observations: IntegerIds):
    await observations.numbers(["obs_a", "проект / 🚀"])
    assert await observations.ids([2, 7, 1, 0, -1, 2**70]) == ["проект / 🚀", None, "obs_a", None, None, None]


async def test_nothing_asked_is_nothing_answered(observations: IntegerIds):
    assert await observations.numbers([]) == []
    assert await observations.ids([]) == []


async def test_the_empty_name_is_a_name(redis: Client):
    """A project may be called so."""
    projects = IntegerIds(redis, TENANT, "project")
    assert await projects.numbers([""]) == [1]
    assert await projects.ids([1]) == [""]


async def test_every_noun_and_every_tenant_counts_for_itself(redis: Client):
    nouns = cast("tuple[Noun, ...]", get_args(Noun))
    registries = [IntegerIds(redis, tenant, noun) for noun in nouns for tenant in ("a", "a:by-number", "{b}", "")]
    for place, registry in enumerate(registries):
        assert await registry.numbers([f"name_{place}"]) == [1]
    for place, registry in enumerate(registries):
        assert await registry.ids([1, 2]) == [f"name_{place}", None]


async def test_more_than_one_call_takes(observations: IntegerIds):
    wanted = names(2 * AT_ONCE + 1)
    assert await observations.numbers(wanted) == list(range(1, len(wanted) + 1))
    assert await observations.ids(range(1, len(wanted) + 1)) == wanted


async def test_those_who_ask_at_once_agree(redis: Client):
    """Twenty processes see the same hundred names in different orders: everybody gets the same hundred numbers."""
    wanted = names(100)
    orders = [wanted[turn * 5 :] + wanted[: turn * 5] for turn in range(20)]
    answers = await asyncio.gather(*(IntegerIds(redis, TENANT, "lesson").numbers(order) for order in orders))
    agreed = dict(zip(orders[0], answers[0], strict=True))
    assert sorted(agreed.values()) == list(range(1, 101))
    for order, answer in zip(orders, answers, strict=True):
        assert [agreed[name] for name in order] == answer


async def test_numbers_outlive_a_restart_of_the_scripts(redis: Client, observations: IntegerIds):
    await observations.numbers(["obs_a"])
    await redis.script_flush()  # type: ignore[attr-defined]
    assert await observations.numbers(["obs_a", "obs_b"]) == [1, 2]
