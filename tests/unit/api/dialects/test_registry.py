from pathlib import Path

import pytest

from api.dialects.registry import DIALECTS, PORT_CLIENTS, ports_of
from ingest.errors import InvalidSetting
from ingest.platform.settings import DROP_INS, VARIABLES, Settings
from tests.acceptance import test_authorisation_walk
from tests.fuzz import doors
from tests.support.compatibility import SYSTEMS
from tests.unit.api.http import test_openapi

EVERY_PORT = Settings(data_dir=Path(), cache_dir=Path(), drop_in=DROP_INS)


def test_the_setting_names_every_dialect_with_ports_of_its_own():
    assert {name for name, one in DIALECTS.items() if one.listeners} == set(DROP_INS)


def test_every_port_has_a_documented_variable_and_clients():
    variables = set(ports_of(EVERY_PORT).values())
    assert variables == set(PORT_CLIENTS)
    assert variables <= set(VARIABLES)


def test_the_suites_that_walk_all_dialects_know_every_listener():
    """Of one that they do not know nothing is walked, described or fuzzed, and they stay green."""
    listeners = {listener.variable for one in DIALECTS.values() for listener in one.listeners}
    ports = {name.removeprefix("MNEMOLOG_").removesuffix("_PORT").lower() for name in listeners}
    on_the_main_port = {"native", *(one.state_name for one in DIALECTS.values() if one.main_port)}

    assert set(test_authorisation_walk.PORT_CLIENTS) == ports | on_the_main_port
    assert set(test_openapi.PORTS) == {port.replace("_", "-") for port in ports}
    assert set(doors.DESCRIBED) == {"native", *DIALECTS}
    assert {system.suite for system in SYSTEMS} == {one.state_name for one in DIALECTS.values()}


def test_a_port_that_two_variables_name_is_refused():
    settings = Settings(data_dir=Path(), cache_dir=Path(), drop_in=("memex",), memex_ports=(8001,))
    with pytest.raises(InvalidSetting, match=r"^MNEMOLOG_MEMEX_PORT and MNEMOLOG_MEMEX_MCP_PORT both name port 8001$"):
        ports_of(settings)
