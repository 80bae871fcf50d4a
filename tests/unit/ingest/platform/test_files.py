"""Files are read and replaced only if they are regular."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from irregular import KINDS, put

from ingest.errors import InvalidSetting
from ingest.platform.addresses import client_key, key_file, store_key
from ingest.platform.files import read_regular, write_whole

URL = "http://127.0.0.1:3111"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("use", [read_regular, partial(write_whole, content=b"x")])
def test_only_a_regular_file_is_read_or_replaced(kind: str, linked: bool, use: Callable[[Path], Any], tmp_path: Path):
    path = thing = put(kind, tmp_path / "thing")
    if linked:
        path = tmp_path / "link"
        path.symlink_to(thing)
    before = path.lstat(), thing.lstat()
    with pytest.raises(OSError, match="not a regular file"):
        use(path)
    assert [(now.st_ino, now.st_mode) for now in (path.lstat(), thing.lstat())] == [
        (then.st_ino, then.st_mode) for then in before
    ]
    assert {*tmp_path.iterdir()} == {path, thing}


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_read_from_and_stored_in_a_regular_file(kind: str, tmp_path: Path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    path = key_file(URL, environ)
    assert path is not None
    put(kind, path)
    assert client_key(URL, environ) is None
    with pytest.raises(InvalidSetting, match="not a regular file"):
        store_key("key", URL, environ)
    assert not path.is_file()
