"""Names in NFC, wherever they enter."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct

from ingest.commands.command import Command
from ingest.commands.decide import Caller, Observe, Remember, WriteAction, decide
from ingest.commands.forgetting import ForgetSubject
from ingest.commands.parse import parse_batch, parse_json, parse_object
from ingest.ids import EventId
from ingest.names import header_name, nfc, with_nfc
from mcp_gateway import lenient
from projections.queries.recall import RecallRequest
from projections.search.question import Filter, facet

NFD, NFC = "Zoe\u0308", "Zo\u00eb"
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def test_a_name_of_ascii_or_in_nfc_is_the_same_object():
    command = Remember(content=NFD, project="shop", tags=[NFC])
    assert with_nfc(command) is command
    assert nfc(NFD) == NFC


@pytest.mark.parametrize("escaped", [True, False])
def test_a_read_is_asked_for_in_nfc_and_its_question_stays(escaped: bool):
    asked: dict[str, Any] = {"query": NFD, "project": NFD, "tags": ["a", NFD], "files": [NFD], "agent_id": NFD}
    body = json.dumps(asked, ensure_ascii=escaped).encode()
    for found in (parse_json(body, RecallRequest), parse_object(asked, RecallRequest)):
        assert (found.query, found.project, found.tags, found.files) == (NFD, NFC, ["a", NFC], [NFC])
        assert found.agent_id == NFC


def test_every_way_to_write_ends_in_nfc():
    """Also where a command was made without a parser, as dialects and importers do."""
    command = Observe(project=NFD, session_id=NFD, agent_id=NFD, user_id=NFD, content=NFD, data={"project": NFD})
    decision = decide(command, Caller(), EventId("e"), NOW)
    envelope, data = decision.event
    assert {envelope.project, envelope.session_id, envelope.agent_id, envelope.user_id} == {NFC}
    assert (data.content, data.data) == (NFD, {"project": NFD})  # pyright: ignore
    assert decision.subject == decide(with_nfc(command), Caller(), EventId("e"), NOW).subject


def test_names_in_structs_of_a_command_are_in_nfc():
    raw = {"type": "action", "title": "x", "edges": [{"type": "requires", "target": NFD}], "assigned_to": NFD}
    (command,) = parse_batch(json.dumps([raw]).encode(), "application/json")
    assert isinstance(command, WriteAction)
    data = decide(command, Caller(), EventId("e"), NOW).event.data
    assert NFC in repr(data)
    assert NFD not in repr(data)


def test_what_names_something_stored_keeps_its_form():
    """A project of before is forgotten by the name that it has."""
    command: Command = ForgetSubject(kind="project", subject=NFD, project=NFD)
    assert decide(command, Caller(), EventId("e"), NOW).event.envelope.project == NFD  # pyright: ignore


def test_arguments_of_dialects_are_in_nfc_also_in_camel_case():
    schema = {"properties": {"sessionId": {"type": "string"}, "content": {"type": "string"}}}
    assert lenient.read({"sessionId": NFD, "content": NFD}, schema) == {"sessionId": NFC, "content": NFD}


def test_a_filter_finds_names_in_any_form():
    assert facet("file", NFD) == facet("file", NFC)
    assert ("project", [NFC]) in Filter(tenant="t", project=NFD).required()


@pytest.mark.parametrize("name", ["小王", NFC, "à", "100%25", "Ã«", "ada", ""])
def test_a_header_is_read_as_utf_8(name: str):
    assert header_name({"x-agent-id": name.encode().decode("latin-1")}, "x-agent-id") == name


def test_a_header_that_is_no_utf_8_is_read_as_latin_1():
    assert header_name({"x-agent-id": "Zo\u00eb"}, "x-agent-id") == NFC


def test_a_header_in_nfd_is_read_in_nfc():
    assert header_name({"x-agent-id": NFD.encode().decode("latin-1")}, "x-agent-id") == NFC


class Other(Struct):
    content: str


def test_a_struct_without_names_stays_as_it_is():
    assert with_nfc(Other(NFD)).content == NFD
