"""What `mnemolog admin config` says of settings: the value, where it comes from, and no secret."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from api.cli import config as logs
from api.cli.config import SECRETS, Line, followed, key_of, last_lines, log_files, settings_of, stamp
from ingest.errors import InvalidSetting
from ingest.platform.addresses import store_key
from ingest.platform.settings import CLIENT_VARIABLES, VARIABLES, Settings
from ingest.secrets.redaction import HIDDEN


def test_every_setting_is_there_with_its_meaning():
    rows = settings_of({"HOME": "/home/ada"})
    assert list(rows) == [*VARIABLES, *CLIENT_VARIABLES]
    assert {row["from"] for row in rows.values()} == {"default", "not set"}
    assert rows["MNEMOLOG_DATA_DIR"]["value"] == "/home/ada/.local/share/mnemolog"
    assert rows["MNEMOLOG_PORT"] == {"value": "3111", "from": "default", "meaning": VARIABLES["MNEMOLOG_PORT"]}


def test_what_the_environment_says_is_told_apart_from_what_follows_from_it():
    rows = settings_of({"MNEMOLOG_PORT": "4111", "XDG_DATA_HOME": "/srv", "MNEMOLOG_PROJECT": "shop"})
    assert rows["MNEMOLOG_PORT"]["from"] == "environment"
    assert (rows["MNEMOLOG_URL"]["value"], rows["MNEMOLOG_URL"]["from"]) == ("http://127.0.0.1:4111", "MNEMOLOG_PORT")
    assert (rows["MNEMOLOG_DATA_DIR"]["value"], rows["MNEMOLOG_DATA_DIR"]["from"]) == ("/srv/mnemolog", "XDG_DATA_HOME")
    assert rows["MNEMOLOG_PROJECT"]["value"] == "shop"


def test_secrets_are_masked_wherever_they_stand():
    environ = dict.fromkeys(SECRETS, "geheim") | {
        "REDIS_URL": "redis://me:geheim@127.0.0.1:6379/0",
        "MNEMOLOG_BACKUP": "s3://bucket/place?token=geheim",
        "MNEMOLOG_LLM": "https://geheim@host/v1|model",
    }
    rows = settings_of(environ)
    assert not [name for name, row in rows.items() if "geheim" in row["value"]]
    assert all(rows[name]["value"] == HIDDEN for name in SECRETS)
    assert rows["REDIS_URL"]["value"] == f"redis://me:{HIDDEN}@127.0.0.1:6379/0"


def test_every_setting_that_is_a_secret_by_its_name_is_masked():
    assert {
        name for name in {**VARIABLES, **CLIENT_VARIABLES} if name.endswith(("_KEY", "_SECRET", "_TOKEN"))
    } == SECRETS
    assert "secret" in Settings.__struct_fields__


def test_it_says_which_key_commands_send(tmp_path: Path):
    environ = {"HOME": str(tmp_path)}
    url = "http://127.0.0.1:4111"
    assert key_of(url, environ) == {"server": url, "from": "no key"}
    path = store_key("mnk_x", url, environ)
    assert key_of(url, environ)["from"] == f"the key in {path}"
    assert key_of(url, {**environ, "MNEMOLOG_SECRET": "x"})["from"] == "the key in MNEMOLOG_SECRET"
    path.chmod(0o644)
    with pytest.raises(InvalidSetting, match="other users can read it"):
        key_of(url, environ)


def test_a_mistyped_setting_is_answered_with_the_one_that_was_meant():
    with pytest.raises(InvalidSetting, match=r"did you mean MNEMOLOG_PORT\?"):
        settings_of({"MNEMOLOG_PROT": "1"})


OURS = "2026-11-24 06:52:15,185 INFO api: up"
VALKEYS = "20811:M 24 Nov 2026 06:52:13.059 * Ready to accept connections"


def test_times_of_our_processes_and_of_valkey_compare():
    assert stamp(VALKEYS) == "2026-11-24T06:52:13.059"
    assert stamp(OURS) == "2026-11-24T06:52:15.185"
    written = datetime(2026, 11, 24, 6, 52, 14, 7_000).astimezone(UTC).isoformat(timespec="milliseconds")
    assert stamp(f'{{"time": "{written}", "level": "INFO"}}') == "2026-11-24T06:52:14.007"
    assert stamp("Traceback (most recent call last):") == ""


def test_the_log_of_each_process_is_found_by_its_name(tmp_path: Path):
    for name in ("logs/api.log", "logs/worker-2.log", "valkey/valkey.log", "valkey/other.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list(log_files(tmp_path)) == ["api", "worker-2", "valkey"]
    assert log_files(tmp_path / "nothing") == {}


def test_a_line_without_a_time_stays_with_the_one_before(tmp_path: Path):
    path = tmp_path / "api.log"
    path.write_text(f"early\n{OURS}\n  a traceback\n")
    at = stamp(OURS)
    lines = list(last_lines("api", path, 10, path.stat().st_size))
    assert lines == [Line("", "api", "early"), Line(at, "api", OURS), Line(at, "api", "  a traceback")]
    assert [line.text for line in last_lines("api", path, 1, path.stat().st_size)] == ["  a traceback"]
    assert list(last_lines("api", path, 0, path.stat().st_size)) == []


def test_of_a_huge_log_only_the_end_is_read_and_no_half_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logs, "MOST_BYTES", 20)
    path = tmp_path / "api.log"
    path.write_text("0123456789\n" * 10)
    assert [line.text for line in last_lines("api", path, 10, 110)] == ["0123456789"]


def test_what_is_written_later_follows_by_whole_lines_also_in_a_file_that_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "api.log"
    path.write_text("before\n")
    steps = iter([lambda: path.write_text("before\none\ntw"), lambda: path.write_text("before\none\ntwo\n"),
                  lambda: path.write_text("cut\n")])  # fmt: skip

    def write_on(seconds: float) -> None:
        next(steps)()

    monkeypatch.setattr(logs.time, "sleep", write_on)
    lines = followed({"api": path}, {"api": path.stat().st_size})
    assert [line.text for line in islice(lines, 3)] == ["one", "two", "cut"]
