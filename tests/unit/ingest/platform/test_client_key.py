"""The key that commands, hooks and bridges send: which file it is in, for which server, and who may read that."""

import os
from pathlib import Path

import pytest

from api.agents import recording
from ingest.errors import InvalidSetting
from ingest.platform.addresses import client_key, store_key

URL = "http://127.0.0.1:3111"
KEY = "mnk_0123456789AB_secret"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def both(url: str, environ: dict[str, str]) -> set[str]:
    """What commands and what hooks send."""
    return {client_key(url, environ) or "", recording.key_of(url, environ)}


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_a_stored_key_is_sent_by_commands_and_hooks(
    environ: dict[str, str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # hooks ask the system for it
    environ |= {"XDG_CONFIG_HOME": str(tmp_path / folder)} if folder else {}
    assert both(URL, environ) == {""}
    path = store_key(KEY, URL, environ)
    assert path.is_relative_to(tmp_path / (folder or ".config"))
    assert both(URL, environ) == {KEY}
    assert both("http://localhost:3111/", environ) == {KEY}


def test_a_stored_key_is_for_its_owner_alone(environ: dict[str, str]):
    old = os.umask(0)
    try:
        path = store_key(KEY, URL, environ)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_stored_key_that_others_can_read_is_not_sent(
    environ: dict[str, str], mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    store_key(KEY, URL, environ).chmod(mode)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        client_key(URL, environ)
    assert recording.key_of(URL, environ) == ""
    assert "chmod 600" in capfd.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:3112",
        "http://127.0.0.1",
        "http://127.0.0.2:3111",
        "http://[::1]:3111",
        "http://127.0.0.1.evil.example:3111",
        "http://127.0.0.1:3111@evil.example:3111",
        "http://evil.example:3111/127.0.0.1_3111",
        "http://..:3111",
        "not a url",
        "http://[",
        "",
    ],
)
def test_a_stored_key_is_sent_to_no_other_server(
    environ: dict[str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    store_key(KEY, URL, environ)
    assert both(url, environ) == {""}


def test_a_key_in_the_environment_counts_before_the_stored_one(environ: dict[str, str]):
    store_key(KEY, URL, environ)
    assert both(URL, {**environ, "MNEMOLOG_SECRET": "s3cret"}) == {"s3cret"}


def test_another_key_takes_the_place_of_the_stored_one(environ: dict[str, str]):
    store_key(KEY, URL, environ)
    path = store_key("mnk_another", URL, environ)
    assert client_key(URL, environ) == "mnk_another"
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(environ: dict[str, str], tmp_path: Path):
    (tmp_path / ".config").write_text("a file")
    with pytest.raises(InvalidSetting, match="cannot be written"):
        store_key(KEY, URL, environ)
    assert client_key(URL, environ) is None


@pytest.mark.parametrize("url", [URL, "http://localhost:4000", "http://[::1]:3111", "http://10.0.0.7/memory/"])
def test_hooks_and_commands_agree_on_the_file(
    environ: dict[str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    store_key(KEY, url, environ)
    assert recording.key_of(url, environ) == KEY


@pytest.mark.parametrize("url", ["", "127.0.0.1:3111", "ftp://127.0.0.1:3111", "http://", "http://[", "http://h:port"])
def test_no_key_is_stored_for_what_is_no_address(environ: dict[str, str], url: str, tmp_path: Path):
    with pytest.raises(InvalidSetting, match="is not an http"):
        store_key(KEY, url, environ)
    assert list(tmp_path.iterdir()) == []
