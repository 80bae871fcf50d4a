"""What `mnemolog config` says of settings: the value, where it comes from, and no secret."""

from pathlib import Path

import pytest

from api.cli.config import SECRETS, key_of, settings_of
from ingest.errors import InvalidSetting
from ingest.platform.addresses import store_key
from ingest.platform.settings import HOOK_VARIABLES, VARIABLES, Settings
from ingest.secrets.redaction import HIDDEN


def test_every_setting_is_there_with_its_meaning():
    rows = settings_of({"HOME": "/home/ada"})
    assert list(rows) == [*VARIABLES, *HOOK_VARIABLES]
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
        "MNEMOLOG_EMBEDDER": "openai:https://geheim@host/v1|model|8",
    }
    rows = settings_of(environ)
    assert not [name for name, row in rows.items() if "geheim" in row["value"]]
    assert all(rows[name]["value"] == HIDDEN for name in SECRETS)
    assert rows["REDIS_URL"]["value"] == f"redis://me:{HIDDEN}@127.0.0.1:6379/0"


def test_every_setting_that_is_a_secret_by_its_name_is_masked():
    assert {name for name in VARIABLES if name.endswith(("_KEY", "_SECRET", "_TOKEN"))} == SECRETS
    assert "secret" in Settings.__struct_fields__


def test_it_says_which_key_commands_send(tmp_path: Path):
    environ = {"HOME": str(tmp_path)}
    url = "http://127.0.0.1:4111"
    assert key_of(url, environ) == {"server": url, "from": "no key"}
    path = store_key("mnk_x", url, environ)
    assert key_of(url, environ)["from"] == f"the key in {path}"
    assert key_of(url, {**environ, "MNEMOLOG_SECRET": "x"})["from"] == "the key in MNEMOLOG_SECRET"
    path.chmod(0o644)
    with pytest.raises(InvalidSetting, match="others can read it"):
        key_of(url, environ)


def test_a_mistyped_setting_is_answered_with_the_one_that_was_meant():
    with pytest.raises(InvalidSetting, match=r"did you mean MNEMOLOG_PORT\?"):
        settings_of({"MNEMOLOG_PROT": "1"})
