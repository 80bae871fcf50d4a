"""Parsers take time in proportion to their text, whatever is in it: in quadratic time, these texts take minutes."""

import tomllib
from contextlib import nullcontext
from inspect import isgenerator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from api.agents.entries import ForeignFile
from api.agents.json_text import Unreadable
from ingest.errors import CommandRejected
from projections.compression.compression import compress

TABLES = tomllib.loads(Path(__file__).with_name("parsers.toml").read_text("utf-8"))


@pytest.mark.parametrize("case", TABLES["case"])
def test_a_megabyte_is_parsed(case: dict[str, Any]):
    case = TABLES["defaults"] | case
    parse, text = resolve_name(case["parser"]), case["begin"] + case["repeat"] * case["repeats"] + case["end"]
    raises = case["raises"]
    with pytest.raises((CommandRejected, ForeignFile, Unreadable), match=raises) if raises else nullcontext():
        result = parse(*case["before"], text, *case["after"], **case["named"])
        shown = str([*result] if isgenerator(result) else result)
        assert not case["each"] or shown.count(case["each"]) == case["repeats"]


@pytest.mark.parametrize("unit", TABLES["units"])
def test_a_megabyte_is_compressed(unit: str):
    text = unit * (2**20 // len(unit))
    compress(text, text, {"tool_name": text, "error": text})
