from pathlib import Path

import pytest

from api.dialects.registry import DIALECTS
from api.http.listening import PORT_CLIENTS, ports_of
from ingest.errors import InvalidSetting
from ingest.platform.settings import DROP_INS, VARIABLES, Settings

EVERY_PORT = Settings(data_dir=Path(), cache_dir=Path(), drop_in=DROP_INS)


def test_the_setting_names_every_dialect_with_ports_of_its_own():
    assert {name for name, one in DIALECTS.items() if one.listeners} == set(DROP_INS)


def test_every_port_has_a_documented_variable_and_clients():
    variables = set(ports_of(EVERY_PORT).values())
    assert variables == set(PORT_CLIENTS)
    assert variables <= set(VARIABLES)


def test_a_port_that_two_variables_name_is_refused():
    settings = Settings(data_dir=Path(), cache_dir=Path(), drop_in=("memex",), memex_ports=(8001,))
    with pytest.raises(InvalidSetting, match=r"^MNEMOLOG_MEMEX_PORT and MNEMOLOG_MEMEX_MCP_PORT both name port 8001$"):
        ports_of(settings)
