"""The language model of an API process and of a worker: settings are checked at the start, connections come later."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from api.app import create_app
from ingest.errors import InvalidSetting
from ingest.platform.settings import Settings, from_environment
from workers.main import WorkerProcess

BUILDS = pytest.mark.parametrize("build", [create_app, WorkerProcess])
Build = Callable[[Settings], object]


def settings(home: Path, **variables: str) -> Settings:
    return from_environment({"HOME": str(home), "REDIS_URL": "redis://127.0.0.1:1/0", **variables})


@BUILDS
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MNEMOLOG_LLM", "llama3.2"),
        ("MNEMOLOG_LLM", "http://me:s3cret@127.0.0.1/v1|llama3.2"),
        ("MNEMOLOG_LLM_KEY", "s3crét"),
        ("MNEMOLOG_LLM_DAILY_TOKENS", "a lot"),
    ],
)
def test_an_invalid_language_model_is_refused_before_anything_is_opened(
    tmp_path: Path, build: Build, name: str, value: str
):
    with pytest.raises(InvalidSetting, match=rf"^{name}\b") as raised:
        build(settings(tmp_path, **{"MNEMOLOG_LLM": "http://127.0.0.1:1/v1|m", name: value}))
    assert "s3cr" not in str(raised.value)


@BUILDS
def test_building_a_process_does_not_connect_to_the_language_model(tmp_path: Path, build: Build):
    with socket.create_server(("127.0.0.1", 0)) as model:
        model.setblocking(False)
        build(settings(tmp_path, MNEMOLOG_LLM=f"http://127.0.0.1:{model.getsockname()[1]}/v1|m"))
        with pytest.raises(BlockingIOError):
            model.accept()
