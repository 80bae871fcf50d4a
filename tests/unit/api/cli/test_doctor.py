"""What `mnemolog doctor` finds, each fault with what to do about it."""

import shutil
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from api.agents.checkouts import spools_of
from api.agents.spools import FAILURE, SENDING
from api.cli import doctor
from api.cli.doctor import Finding, findings
from ingest.platform.processes import release
from projections.vectors import model_files
from projections.vectors.model_files import PACKAGED
from tests.support.fake_api import FakeServer
from tests.support.ports import free_port


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine where nothing is wrong, and nothing runs."""
    return {
        "HOME": str(tmp_path),
        "MNEMOLOG_PORT": str(free_port()),
        "MNEMOLOG_DATA_DIR": str(tmp_path / "data"),
        "MNEMOLOG_EMBEDDER": "none",
    }


def found(environ: Mapping[str, str], url: str | None = None) -> dict[str, Finding]:
    """The findings by name."""
    return {finding.name: finding for finding in findings(environ, url)}


def test_a_machine_on_which_nothing_runs_yet_is_well(environ: dict[str, str]):
    every = found(environ)
    assert [one for one in every.values() if one.status == "problem"] == []
    assert every[f"port {environ['MNEMOLOG_PORT']}"].message == "free"
    assert (every["server"].status, every["server"].advice) == ("note", "start it: mnemolog up")
    assert list(Path(environ["HOME"]).iterdir()) == [], "nothing is written"


def test_events_that_wait_are_shown_with_their_server_and_the_command_that_sends_them(environ: dict[str, str]):
    environ["XDG_STATE_HOME"] = environ["HOME"]
    local, remote = (Path(spools_of(environ), name) for name in ("4000", "5f0c"))
    for folder in (local, remote):
        folder.mkdir(parents=True)
        (folder / "1767225600000-1-abc-2.json").write_text("{}")
    (remote / SENDING).write_text("https://memory.example")
    (remote / FAILURE).write_text("https://memory.example answers 503")
    first, second = (finding for finding in findings(environ, None) if finding.name == "spool")
    assert first.message.startswith(f"1 event waits in the spool {local} since ")
    assert first.message.endswith(" for the server at port 4000")
    assert "MNEMOLOG_PORT=4000 mnemolog up" in first.advice
    assert second.message.endswith(" for https://memory.example: https://memory.example answers 503")
    assert second.advice.endswith(f"api/agents/hook.py --send https://memory.example {remote}")


def test_a_folder_that_cannot_be_made(environ: dict[str, str]):
    file = Path(environ["HOME"]) / "file"
    file.touch()
    one = found({**environ, "MNEMOLOG_DATA_DIR": str(file / "deeper")})["data folder"]
    assert one.status == "problem"
    assert str(file) in one.message
    assert "MNEMOLOG_DATA_DIR" in one.advice


def test_a_port_that_another_program_has(environ: dict[str, str]):
    with socket.create_server(("127.0.0.1", int(environ["MNEMOLOG_PORT"]))):
        one = found({**environ, "MNEMOLOG_URL": "http://127.0.0.1:1"})[f"port {environ['MNEMOLOG_PORT']}"]
    assert one.status == "problem"
    assert "MNEMOLOG_PORT" in one.advice


def test_a_redis_that_is_away(environ: dict[str, str]):
    one = found({**environ, "REDIS_URL": "redis://me:geheim@127.0.0.1:1"})["log"]
    assert one.status == "problem"
    assert "127.0.0.1:1 does not answer" in one.message
    assert "geheim" not in str(one)
    assert "REDIS_URL" in one.advice


def test_a_setting_that_is_wrong_ends_the_look(environ: dict[str, str]):
    every = found({**environ, "MNEMOLOG_PARTITIONS": "many"})
    assert "MNEMOLOG_PARTITIONS='many'" in every["settings"].message
    assert "server" not in every


def test_the_model_is_checked(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    named = {**environ, "MNEMOLOG_EMBEDDER": "default"}
    assert found(named)["model"] == doctor.Finding("model", "ok", "installed: all-MiniLM-L6-v2:int8")
    monkeypatch.setitem(PACKAGED, "default", "no_such_package")
    one = found(named)["model"]
    assert (one.status, one.advice) == ("problem", "reinstall it: pip install --force-reinstall 'mnemolog'")


@pytest.mark.skipif(find_spec("mnemolog_e5") is None, reason="the multilingual model is not installed")
def test_a_multilingual_model_that_is_not_installed(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    named = {**environ, "MNEMOLOG_EMBEDDER": "multilingual"}
    assert found(named)["model"] == doctor.Finding("model", "ok", "installed: multilingual-e5-small:int8")
    monkeypatch.setitem(PACKAGED, "multilingual", "no_such_package")
    one = found(named)["model"]
    assert (one.status, one.message) == (
        "problem", "model no-such-package: the package is not installed: pip install no-such-package"
    )  # fmt: skip
    assert one.advice == "reinstall it: pip install --force-reinstall 'mnemolog[multilingual]'"


def test_the_static_vectors_of_the_multilingual_model_are_checked(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(model_files, "MODEL_PACKAGE", "no_such_package")
    one = found({**environ, "MNEMOLOG_EMBEDDER": "multilingual"})["model"]
    assert one.message == "model no-such-package: the package is not installed: pip install no-such-package"


def test_the_compiled_module_is_checked(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    assert found(environ)["compiled module"] == Finding("compiled module", "ok", "installed")
    monkeypatch.setitem(sys.modules, "projections.kernel.module", None)
    assert found(environ)["compiled module"].status == "problem"


@pytest.mark.parametrize(("free", "status"), [(1 << 20, "problem"), (512 << 20, "note"), (2 << 30, "ok")])
def test_a_disk_that_gets_full(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, free: int, status: str):
    usage = shutil.disk_usage("/")._replace(free=free)

    def disk_usage(path: Path) -> object:
        return usage

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert found(environ)["disk"].status == status


READY: dict[str, Any] = {"status": "ready", "degraded": []}


def serving(fake: FakeServer, version: str = release(), **state: Any) -> None:
    fake.answers |= {
        "GET /readyz": (200, {**READY, **state}),
        "GET /openapi.json": (200, {"info": {"version": version}}),
        "GET /v1/diagnose": (200, {"checks": []}),
    }


def test_a_server_of_another_version(environ: dict[str, str], fake_api: FakeServer):
    serving(fake_api, version="0.0.9")
    one = found(environ, fake_api.url)["version"]
    assert (one.status, "0.0.9" in one.message, release() in one.message) == ("problem", True, True)


def test_a_backlog_is_no_problem_of_the_server(environ: dict[str, str], fake_api: FakeServer):
    serving(fake_api, status="degraded", degraded=[{"code": "late", "message": "900 events are not projected yet"}])
    every = found(environ, fake_api.url)
    assert (every["late"].status, every["server"].message) == ("note", f"{fake_api.url} answers, catching up")


def test_what_the_server_finds_itself(environ: dict[str, str], fake_api: FakeServer):
    serving(fake_api, status="degraded", degraded=[{"code": "no_worker", "message": "no worker is running"}])
    checks = [
        {"category": "log", "name": "lag", "status": "fail", "message": "behind", "fixable": False},
        {"category": "slots", "name": "size", "status": "warn", "message": "too big", "fixable": True},
        {"category": "index", "name": "ready", "status": "pass", "message": "fine", "fixable": False},
    ]
    fake_api.answers["GET /v1/diagnose"] = (200, {"checks": checks})
    every = found(environ, fake_api.url)
    assert every["no_worker"].status == "problem"
    assert every["log/lag"].status == "problem"
    assert (every["slots/size"].status, every["slots/size"].advice) == ("note", "mnemolog admin reconcile")
    assert "index/ready" not in every


def test_a_key_that_may_not_have_a_diagnosis_has_the_rest(environ: dict[str, str], fake_api: FakeServer):
    serving(fake_api)
    fake_api.answers["GET /v1/diagnose"] = (403, {"code": "forbidden", "detail": "for admins"})
    every = found(environ, fake_api.url)
    assert (every["server"].status, every["diagnosis"].status) == ("ok", "note")


NOT_WELL: list[tuple[tuple[int, Any], str]] = [
    ((401, {"code": "unauthorized", "detail": "no"}), "requires a key"),
    ((503, {"code": "unavailable", "reason": "log", "detail": "the log is away"}), "the log is away"),
    ((404, {}), "is it a mnemolog server"),
]


@pytest.mark.parametrize(("answer", "told"), NOT_WELL)
def test_a_server_that_does_not_work(environ: dict[str, str], fake_api: FakeServer, answer: tuple[int, Any], told: str):
    serving(fake_api)
    fake_api.answers["GET /readyz"] = answer
    one = found(environ, fake_api.url)["server"]
    assert one.status == "problem"
    assert told in one.message


def test_it_exits_by_whether_there_is_a_problem(environ: dict[str, str], fake_api: FakeServer):
    serving(fake_api)
    app = typer.Typer()
    doctor.register(app)
    well = CliRunner().invoke(app, ["--url", fake_api.url], env=environ)
    assert (well.exit_code, "PROBLEM" in well.stdout) == (0, False)
    ill = CliRunner().invoke(app, ["--url", "nonsense"], env=environ)
    assert (ill.exit_code, "PROBLEM" in ill.stdout, "1 problem" in ill.stderr) == (1, True, True)
