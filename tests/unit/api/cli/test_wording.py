"""Refusals in words of the command line: of every kind of fault that the API's decoders tell."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from api.cli.output import worded
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected


class Asked(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=200)] = 1
    min_confidence: Annotated[float, Meta(ge=0, le=1)] = 0
    agent_id: Annotated[str, Meta(max_length=3)] = ""
    query: Annotated[str, Meta(min_length=1)] = "x"
    tags: Annotated[list[str], Meta(max_length=1)] = msgspec.field(default_factory=list[str])
    mode: Literal["hybrid", "vector"] = "hybrid"
    ttl_days: Annotated[float, Meta(gt=0)] | None = None
    fold: bool = True


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"limit": "a"}, "--limit must be a whole number"),
        ({"limit": 0}, "--limit must be at least 1"),
        ({"limit": 201}, "--limit must be at most 200"),
        ({"min_confidence": "a"}, "--min-confidence must be a number"),
        ({"min_confidence": 1.5}, "--min-confidence must be at most 1.0"),
        ({"ttl_days": 0}, "--ttl-days must be more than 0.0"),
        ({"agent_id": "adas"}, "--agent may have at most 3 characters"),
        ({"query": ""}, "the query must not be empty"),
        ({"tags": ["a", "b"]}, "--tags may have at most 1 values"),
        ({"tags": [1]}, "Expected `str`, got `int` (--tags)"),
        ({"mode": "lexical"}, "--mode cannot be 'lexical'"),
        ({"fold": 1}, "--fold must be true or false"),
    ],
)
def test_what_a_decoder_says_of_a_field_is_told_of_the_option(body: dict[str, Any], told: str):
    with pytest.raises(CommandRejected) as caught:
        parse_object(body, Asked)
    assert worded(caught.value.message, caught.value.field) == told


def test_what_is_needed_or_is_told_in_words_already_names_the_option():
    assert worded("Object missing required field `query`", "query") == "the query is needed"
    assert worded("a ttl needs a date", "ttl_days") == "a ttl needs a date (--ttl-days)"
    assert worded("the log is away", None) == "the log is away"
