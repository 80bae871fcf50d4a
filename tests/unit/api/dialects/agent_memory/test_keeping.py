"""Reports wait in the spool folder while the log is away."""

from pathlib import Path

import pytest

from api.dialects.agent_memory import keeping
from api.dialects.agent_memory.queued import QueueItem, observe, spooled
from ingest.log.spool import Spool

BODY = b'{"session_id":"s1","tool_name":"Bash","cwd":"/home/ada/shop"}'


def test_what_is_kept_is_what_the_spool_takes(tmp_path: Path):
    folder = tmp_path / "spool"
    assert keeping.keep(folder, keeping.new_name(), BODY)
    assert keeping.keep(folder, keeping.new_name(), BODY)
    taken = Spool(folder, spooled).take(10)
    assert [len(file.commands) for file in taken] == [1, 1]
    assert len({command.event_id for file in taken for command in file.commands}) == 2


def test_the_folder_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping, "MAX_FILES", 1)
    assert keeping.keep(tmp_path, keeping.new_name(), BODY)
    assert not keeping.keep(tmp_path, keeping.new_name(), BODY)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_report_that_was_stored_and_kept_all_the_same_is_one_event(tmp_path: Path):
    name = keeping.new_name()
    stored = observe(QueueItem.model_validate_json(BODY), BODY, "shop", name)
    keeping.keep(tmp_path, name, BODY)
    (file,) = Spool(tmp_path, spooled).take(10)
    assert file.commands == [stored]
