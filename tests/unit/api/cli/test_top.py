"""What `mnemolog top` makes of two looks at a server, and of what a key may not know."""

import json

import pytest
import typer
from typer.testing import CliRunner

from api.cli import top as command
from api.cli.top import Look, rates, served
from tests.support.fake_api import FakeServer

METRICS = """
# HELP mnemolog_http_request_duration_seconds Time to answer.
mnemolog_http_request_duration_seconds_bucket{door="native",le="0.001",route="/v1/recall"} 1.0
mnemolog_http_request_duration_seconds_count{door="native",process="0",route="/v1/recall"} 10.0
mnemolog_http_request_duration_seconds_count{door="native",process="1",route="/v1/recall"} 2.0
mnemolog_http_request_duration_seconds_sum{door="native",process="0",route="/v1/recall"} 0.5
mnemolog_http_request_duration_seconds_sum{door="native",process="1",route="/v1/recall"} 0.1
mnemolog_ready 1.0
"""


def test_requests_of_a_route_are_those_of_all_processes():
    assert served(METRICS) == {"/v1/recall": (12.0, pytest.approx(0.6))}
    assert served("") == {}


def test_rates_are_of_what_happened_between_two_looks_the_busiest_first():
    before = Look(at=10.0, served={"/a": (5, 1.0), "/idle": (3, 1.0)})
    now = Look(at=12.0, served={"/a": (7, 1.1), "/idle": (3, 1.0), "/new": (8, 0.4)})
    found = rates(before, now)
    assert [(one.route, one.per_s) for one in found] == [("/new", 4.0), ("/a", 1.0)]
    assert [one.mean_ms for one in found] == [pytest.approx(50.0), pytest.approx(50.0)]
    assert rates(now, now) == []


def test_a_key_that_may_see_less_sees_that_and_is_told_what_is_missing(
    fake_api: FakeServer, monkeypatch: pytest.MonkeyPatch
):
    refused = (403, {"code": "forbidden", "detail": "for operators"})
    fake_api.answers |= {
        "GET /readyz": (200, {"status": "ready", "degraded": []}),
        "GET /metrics": refused,
        "GET /v1/admin/projections": refused,
        "GET /v1/audit": (200, {"entries": []}),
    }
    monkeypatch.setattr(command, "FIRST_S", 0)
    app = typer.Typer()
    command.register(app)
    shown = CliRunner().invoke(app, [])
    assert shown.exit_code == 0
    assert "not shown: partitions: for operators" in shown.stdout
    told = json.loads(CliRunner().invoke(app, ["--json"]).stdout)
    assert [one.partition(":")[0] for one in told["unseen"]] == ["vital signs", "requests", "partitions"]
    assert told["server"]["status"] == "ready"
