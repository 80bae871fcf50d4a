"""`mnemolog open`: the address is printed whatever becomes of the browser."""

import webbrowser

import pytest
import typer
from typer.testing import CliRunner

from api.cli import server
from tests.support.fake_api import FakeServer


def opened(*arguments: str) -> tuple[str, str]:
    """What it prints, on stdout and stderr."""
    app = typer.Typer()
    server.register(app)
    done = CliRunner().invoke(app, ["open", *arguments])
    assert done.exit_code == 0
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("status", [200, 401, 503], ids=["ready", "asks for a key", "starting"])
def test_the_viewer_is_opened_and_its_address_is_printed(
    fake_api: FakeServer, monkeypatch: pytest.MonkeyPatch, status: int
):
    fake_api.answers["GET /readyz"] = (status, {"status": "x", "code": "unauthorized", "detail": "no"})
    pages: list[str] = []

    def browse(page: str) -> bool:
        pages.append(page)
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    printed, _ = opened()
    assert pages == [printed]
    assert printed.endswith("/viewer")


def test_where_there_is_no_browser_it_says_so(fake_api: FakeServer, monkeypatch: pytest.MonkeyPatch):
    fake_api.answers["GET /readyz"] = (200, {"status": "ready"})

    def fail(page: str) -> bool:
        return False

    monkeypatch.setattr(webbrowser, "open", fail)
    printed, said = opened()
    assert printed.endswith("/viewer")
    assert "no browser is available" in said
    assert opened("--no-browser") == (printed, "")
