from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from ingest.platform.clock import machine_zone, time_zone


def test_a_zone_is_named_by_iana_and_utc_without_a_name():
    assert time_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert time_zone("") is UTC


@pytest.mark.parametrize(
    "name", ["Nowhere/City", "../../etc/passwd", "/etc/passwd", "Europe", "+02:00", "\0", "\ud800"]
)
def test_what_names_no_zone_is_refused(name: str):
    with pytest.raises(ValueError, match="is no time zone"):
        time_zone(name)


@pytest.mark.parametrize(
    ("variable", "zone"),
    [("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo"), ("CET-1CEST", ""), ("Nowhere/City", "")],
)
def test_the_zone_of_the_machine_is_the_one_that_its_environment_names(
    variable: str, zone: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", variable)
    assert machine_zone() == zone


def test_the_zone_of_the_machine_is_known_to_servers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TZ", raising=False)
    assert time_zone(machine_zone())
