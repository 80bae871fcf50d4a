"""Settings come from the environment; a wrong value or name stops the start and says which."""

from pathlib import Path

import pytest

from ingest.settings import VARIABLES, InvalidSetting, Settings, from_environment, to_environment

HOME = {"HOME": "/home/ada"}


def test_an_empty_environment_gives_the_defaults():
    settings = from_environment(HOME)
    assert settings == Settings(
        data_dir=Path("/home/ada/.local/share/mnemolog"), cache_dir=Path("/home/ada/.cache/mnemolog")
    )
    assert (settings.redis_url, settings.secret, settings.partitions, settings.port) == (None, None, 16, 3111)


def test_every_variable_is_read():
    """No variable is documented and then ignored: each of them changes the settings."""
    values = {
        "REDIS_URL": "redis://cache:6379/0",
        "MNEMOLOG_DATA_DIR": "/srv/data",
        "MNEMOLOG_CACHE_DIR": "/srv/cache",
        "MNEMOLOG_HOST": "0.0.0.0",
        "MNEMOLOG_PORT": "4000",
        "MNEMOLOG_SECRET": "s3cret",
        "MNEMOLOG_TENANT": "acme",
        "MNEMOLOG_PARTITIONS": "32",
        "MNEMOLOG_EMBEDDER": "none",
        "MNEMOLOG_EMBEDDER_KEY": "sk-1",
        "MNEMOLOG_SNAPSHOT_EVERY": "500",
        "MNEMOLOG_LOG_LEVEL": "debug",
        "MNEMOLOG_URL": "http://door:4000",
    }
    assert values.keys() == VARIABLES.keys()
    defaults = from_environment(HOME)
    for name, value in values.items():
        assert from_environment({**HOME, name: value}) != defaults, name
    assert to_environment(from_environment(values)) == values


def test_a_child_process_reads_the_same_settings():
    settings = from_environment({**HOME, "MNEMOLOG_PORT": "4000", "MNEMOLOG_SECRET": "s3cret"})
    assert from_environment(to_environment(settings)) == settings


def test_what_is_unset_is_not_handed_to_a_child():
    assert {"REDIS_URL", "MNEMOLOG_SECRET"}.isdisjoint(to_environment(from_environment(HOME)))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MNEMOLOG_PORT", "eighty", "not a whole number"),
        ("MNEMOLOG_PORT", "0", "not between 1 and 65535"),
        ("MNEMOLOG_PORT", "65536", "not between 1 and 65535"),
        ("MNEMOLOG_PARTITIONS", "0", "not between 1 and 1024"),
        ("MNEMOLOG_PARTITIONS", "1025", "not between 1 and 1024"),
        ("MNEMOLOG_PARTITIONS", "1.5", "not a whole number"),
        ("MNEMOLOG_SNAPSHOT_EVERY", "-1", "not between"),
        ("MNEMOLOG_LOG_LEVEL", "loud", "not one of debug, info, warning, error"),
    ],
)
def test_an_impossible_value_is_named_with_its_variable(name: str, value: str, said: str):
    with pytest.raises(InvalidSetting, match=f"{name}=.*{said}"):
        from_environment({name: value})


def test_a_misspelt_variable_is_refused_with_the_ones_there_are():
    with pytest.raises(InvalidSetting, match=r"MNEMOLOG_PARTITION is not a setting; there are: .*MNEMOLOG_PARTITIONS"):
        from_environment({"MNEMOLOG_PARTITION": "8"})


def test_other_programs_variables_are_none_of_our_business():
    assert from_environment({**HOME, "PATH": "/bin", "AGENT_MNEMOLOG": "x"}) == from_environment(HOME)


@pytest.mark.parametrize("name", [name for name in VARIABLES if name != "REDIS_URL"])
def test_an_empty_value_means_unset(name: str):
    assert from_environment({**HOME, name: ""}) == from_environment(HOME)


def test_the_xdg_folders_are_honoured():
    settings = from_environment({"XDG_DATA_HOME": "/x/data", "XDG_CACHE_HOME": "/x/cache"})
    assert (settings.data_dir, settings.cache_dir) == (Path("/x/data/mnemolog"), Path("/x/cache/mnemolog"))
    assert settings.snapshots == Path("/x/data/mnemolog/snapshots")
    assert settings.model_directory == Path("/x/cache/mnemolog/models/default")


def test_a_log_level_may_be_shouted():
    assert from_environment({"MNEMOLOG_LOG_LEVEL": "DEBUG"}).log_level == "debug"


def test_the_url_follows_the_port():
    assert from_environment({"MNEMOLOG_PORT": "4000"}).url == "http://127.0.0.1:4000"
