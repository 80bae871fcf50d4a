"""`mnemolog memory` without a service: where it looks for one, and what it leaves alone of an answer."""

import pytest
from typer.testing import CliRunner

from api.cli.main import application
from api.cli.memory import CUT_BYTES, AgentdMemory, cut, full, moment


def test_a_text_is_cut_by_its_bytes_and_between_characters():
    assert cut("x" * 50) == "x" * 50
    assert cut("x" * 51) == "x" * 49 + "…"
    assert cut("é" * 25) == "é" * 25
    assert cut("é" * 26) == "é" * (CUT_BYTES // 2) + "…"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("2026-01-31T12:00:00.123456789Z", "2026-01-31 12:00:00 UTC"),
        ("2026-01-31T23:30:00-02:00", "2026-02-01 01:30:00 UTC"),
        ("soon", "soon"),
    ],
)
def test_a_time_is_shown_in_utc(sent: str, shown: str):
    assert moment(sent) == shown


def test_a_view_names_the_owner_between_tags_and_references():
    memory = AgentdMemory(
        id="mem_1", content="text", type="request", tags=["a"], created_by="ada", owner="olga", references=["mem_2"],
        created_at="2026-01-31T12:00:00Z", updated_at="2026-01-31T12:00:00Z", visibility="private", shared_with=["bob"],
    )  # fmt: skip
    assert [line.split(":")[0].strip() for line in full(memory)][5:] == [
        "Visibility", "Shared with", "Tags", "Owner", "References",
    ]  # fmt: skip


@pytest.mark.parametrize("url", ["localhost:7008", "ftp://localhost", "http://", "http://localhost:port"])
def test_an_address_that_is_none_is_a_wrong_command(url: str):
    done = CliRunner().invoke(application(), ["memory", "health"], env={"AGENTD_MEMORY_SERVICE_URL": url})
    assert done.exit_code == 2
    assert "AGENTD_MEMORY_SERVICE_URL" in done.stderr


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "http://127.0.0.1:1"),
        ({"MNEMOLOG_URL": "http://127.0.0.2:3111"}, "http://127.0.0.2:1"),
        ({"MNEMOLOG_URL": "http://[::1]:3111/"}, "http://[::1]:1"),
        ({"MNEMOLOG_URL": "http://127.0.0.2:3111", "AGENTD_MEMORY_SERVICE_URL": "http://127.0.0.3:2"}, "127.0.0.3:2"),
    ],
)
def test_without_a_service_it_is_our_door_on_the_host_of_every_other_command(chosen: dict[str, str], expected: str):
    environment = {"AGENTD_MEMORY_SERVICE_URL": "", "MNEMOLOG_URL": "", "MNEMOLOG_AGENTD_PORT": "1", **chosen}
    done = CliRunner().invoke(application(), ["memory", "health"], env=environment)
    assert done.exit_code == 1
    assert f"{expected}: " in done.stderr
    assert "mnemolog up --drop-in agentd" in done.stderr


def test_a_server_address_that_is_none_is_a_wrong_command():
    environment = {"AGENTD_MEMORY_SERVICE_URL": "", "MNEMOLOG_URL": "localhost:3111"}
    done = CliRunner().invoke(application(), ["memory", "health"], env=environment)
    assert (done.exit_code, "MNEMOLOG_URL" in done.stderr) == (2, True)
