"""Which place a setting names."""

from pathlib import Path

import pytest

from ingest.errors import InvalidSetting
from projections.maintenance.backup.target import target_of


def test_a_path_is_a_directory():
    assert str(target_of("/srv/backups")) == "/srv/backups"
    assert str(target_of("~/backups")) == str(Path.home() / "backups")


@pytest.mark.parametrize(
    ("setting", "token", "said"),
    [
        ("nowhere://bucket", "", "is not a directory or an fsspec URL"),
        ("hf://models/ada/memories", "t", "is no place for backups"),
        ("hf://datasets/memories", "t", "write OWNER/NAME"),
        ("hf://datasets/ada/memories", "", "need HF_TOKEN"),
    ],
)
def test_what_is_no_place_is_refused(setting: str, token: str, said: str):
    with pytest.raises(InvalidSetting, match=said):
        target_of(setting, token)
