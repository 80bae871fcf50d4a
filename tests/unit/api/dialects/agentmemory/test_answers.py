import json

import pytest

from api.dialects.agentmemory.operations import answer, argument, refused
from api.dialects.profiles import PROFILES
from ingest.errors import CommandRejected, LogUnavailable, NotFound, Overloaded, SessionFull, SlotFull
from mcp_gateway.lenient import BadArgument

TOOLS = PROFILES.offer(("agentmemory",)).tools
SAVE, SLOT = TOOLS["memory_save"], TOOLS["memory_slot_create"]


def test_the_text_is_the_json_of_the_data():
    given = answer({"success": True, "n": 1})
    assert json.loads(given.text) == given.data == {"success": True, "n": 1}


@pytest.mark.parametrize(
    "error",
    [BadArgument("content is empty", "content"), CommandRejected("too long", "content"), BadArgument("x", "type")],
)
def test_an_argument_at_fault_is_an_error_that_names_it(error: CommandRejected):
    said = refused(SAVE, error)
    assert said.is_error
    assert str(error.field) in said.text


def test_a_fields_name_is_told_as_agentmemory_spells_it():
    assert refused(SLOT, CommandRejected("expected int", "size_limit")).text.startswith("Bad argument sizeLimit:")
    assert [argument(one) for one in ("size_limit", "tags[3]", "label", None)] == ["sizeLimit", "tags", "label", None]


@pytest.mark.parametrize(
    "error", [NotFound("gone"), SlotFull("notes", 9, 10), SessionFull("s1", 500), CommandRejected("no", "metadata")]
)
def test_what_a_function_refuses_is_its_answer(error: Exception):
    said = refused(SAVE, error)
    assert not said.is_error
    assert json.loads(said.text) == {"success": False, "error": str(error)} == said.data


@pytest.mark.parametrize("error", [LogUnavailable("x"), Overloaded("full"), ZeroDivisionError("row 42")])
def test_a_fault_of_the_server_is_an_error(error: Exception):
    said = refused(SAVE, error)
    assert said.is_error
    assert "row 42" not in said.text
