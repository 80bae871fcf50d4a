import socket
from pathlib import Path

import pytest

from ingest.errors import InvalidSetting
from ingest.platform.settings import from_environment
from workers.main import WorkerProcess

HERE = {"REDIS_URL": "redis://127.0.0.1:1/0"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MNEMOLOG_LLM", "llama3.2"),
        ("MNEMOLOG_LLM", "http://me:s3cret@127.0.0.1/v1|llama3.2"),
        ("MNEMOLOG_LLM_KEY", "s3crét"),
        ("MNEMOLOG_LLM_DAILY_TOKENS", "a lot"),
    ],
)
def test_a_language_model_that_cannot_be_is_refused_before_anything_is_opened(tmp_path: Path, name: str, value: str):
    environment = {"HOME": str(tmp_path), "MNEMOLOG_LLM": "http://127.0.0.1:1/v1|m", **HERE, name: value}
    with pytest.raises(InvalidSetting, match=rf"^{name}\b") as raised:
        WorkerProcess(from_environment(environment))
    assert "s3cr" not in str(raised.value)


def test_building_the_worker_does_not_connect_to_the_language_model(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as model:
        model.setblocking(False)
        url = f"http://127.0.0.1:{model.getsockname()[1]}/v1|m"
        WorkerProcess(from_environment({"HOME": str(tmp_path), "MNEMOLOG_LLM": url, **HERE}))
        with pytest.raises(BlockingIOError):
            model.accept()
