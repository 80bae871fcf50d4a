"""What every place for backups promises: whole or not there, given back as it was, gone for good when deleted.

Left open: where a place keeps its files, and how a reader that fetches one while it is deleted fares.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from hub_stub import REPOSITORY, TOKEN, HubStub

from ingest.errors import InvalidSetting
from projections.maintenance.backup.directory import DirectoryTarget
from projections.maintenance.backup.hugging_face import HuggingFaceTarget
from projections.maintenance.backup.manifest import MANIFEST, RECORDS, BackupFailed
from projections.maintenance.backup.target import Target

SECRET = b"zqxvkmarker7"

# of the library itself, which hands a file to its HTTP client by an old name
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


class TargetConformance(ABC):
    """One suite for all places. A place says itself what bytes it has, history and all."""

    @pytest.fixture
    @abstractmethod
    def target(self) -> Target:
        """An empty place, which does not exist yet."""

    @abstractmethod
    def everything(self) -> bytes:
        """All bytes of the place."""

    def put(self, target: Target, tmp_path: Path, name: str, content: bytes = b"records") -> None:
        """Keep a backup."""
        folder = tmp_path / f"made-{name}"
        folder.mkdir()
        (folder / RECORDS).write_bytes(content)
        (folder / MANIFEST).write_bytes(b'{"name": "%s"}' % name.encode())
        target.put(name, folder)

    def test_a_place_that_does_not_exist_has_none(self, target: Target):
        assert target.names() == []
        target.delete(["one"])

    def test_names_are_in_order_and_files_come_back_as_they_were(self, target: Target, tmp_path: Path):
        for name in ("b", "a", "c"):
            self.put(target, tmp_path, name, name.encode() * 70_000)
        assert target.names() == ["a", "b", "c"]
        for name in target.names():
            assert target.fetch(name, RECORDS, tmp_path / "work").read_bytes() == name.encode() * 70_000
            assert target.fetch(name, MANIFEST, tmp_path / "work").read_bytes() == b'{"name": "%s"}' % name.encode()

    def test_a_file_that_is_not_there_is_named(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a")
        with pytest.raises(BackupFailed, match=r"a.*other\.zst"):
            target.fetch("a", "other.zst", tmp_path / "work")
        with pytest.raises(BackupFailed, match="z"):
            target.fetch("z", RECORDS, tmp_path / "work")

    def test_what_is_deleted_is_gone_with_its_history(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a", SECRET)
        self.put(target, tmp_path, "b", b"the kettle is green")
        assert SECRET in self.everything()
        target.delete(["a", "never"])
        assert target.names() == ["b"]
        assert SECRET not in self.everything()
        assert target.fetch("b", RECORDS, tmp_path / "work").read_bytes() == b"the kettle is green"
        target.delete(["b"])
        assert target.names() == []

    def test_a_content_that_another_backup_has_too_stays(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a", b"the same")
        self.put(target, tmp_path, "b", b"the same")
        target.delete(["a"])
        assert target.fetch("b", RECORDS, tmp_path / "work").read_bytes() == b"the same"


class TestDirectory(TargetConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> DirectoryTarget:
        self.directory = tmp_path / "backups"
        return DirectoryTarget(self.directory)

    def everything(self) -> bytes:
        return b"\n".join(path.read_bytes() for path in sorted(self.directory.rglob("*")) if path.is_file())

    def test_one_that_was_being_written_is_not_there_and_goes_with_the_next(self, target: Target, tmp_path: Path):
        torn = self.directory / ".writing-a"
        torn.mkdir(parents=True)
        (torn / MANIFEST).write_bytes(b"{}")
        (self.directory / "half").mkdir()
        (self.directory / "half" / RECORDS).write_bytes(b"no manifest")
        assert target.names() == []
        self.put(target, tmp_path, "b")
        assert target.names() == ["b"]
        assert not torn.exists()

    def test_a_deletion_that_was_interrupted_can_be_repeated(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a")
        (self.directory / "a" / RECORDS).unlink()
        assert target.names() == ["a"]
        target.delete(["a"])
        assert list(self.directory.iterdir()) == []

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(BackupFailed, match=f"{tmp_path}/file/below"):
            self.put(DirectoryTarget(tmp_path / "file" / "below"), tmp_path, "a")

    def test_others_may_not_read_it(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a")
        assert [path.stat().st_mode & 0o077 for path in (self.directory, self.directory / "a")] == [0, 0]


class TestHuggingFace(TargetConformance):
    """Small files, which the Hub takes in the commit itself."""

    large = False

    @pytest.fixture
    def target(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[HuggingFaceTarget]:
        # its own protocol for large files has no server to stand in for; this is the one it falls back to
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        with HubStub(large=self.large) as hub:
            self.hub = hub
            yield HuggingFaceTarget(REPOSITORY, TOKEN, hub.url)

    def everything(self) -> bytes:
        return self.hub.everything()

    def test_the_repository_is_private(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a")
        assert self.hub.private

    @pytest.mark.parametrize(("repository", "token"), [("memories", TOKEN), ("a/b/c", TOKEN), (REPOSITORY, "")])
    def test_what_is_no_repository_or_has_no_token_is_refused(self, repository: str, token: str):
        with pytest.raises(InvalidSetting, match=r"OWNER/NAME|HF_TOKEN"):
            HuggingFaceTarget(repository, token)

    def test_it_is_refused_where_the_library_may_not_call(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(InvalidSetting, match="HF_HUB_OFFLINE"):
            HuggingFaceTarget(REPOSITORY, TOKEN)

    def test_a_deletion_that_was_interrupted_can_be_repeated(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a", SECRET)
        self.hub.squashes = False
        with pytest.raises(BackupFailed, match="cannot be deleted"):
            target.delete(["a"])
        assert target.names() == ["a"], "it is still there to be deleted"
        self.hub.squashes = True
        target.delete(["a"])
        assert target.names() == []
        assert SECRET not in self.everything()

    def test_a_backup_is_one_commit(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a")
        assert self.hub.commits is not None
        assert [sorted(tree) for tree in self.hub.commits] == [[], [f"a/{MANIFEST}", f"a/{RECORDS}"]]

    def test_a_hub_that_refuses_is_told_from_one_that_has_none(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, "a")
        stranger = HuggingFaceTarget(REPOSITORY, "hf_wrong", self.hub.url)
        with pytest.raises(BackupFailed, match=r"hf://datasets/ada/memories cannot be read.*401"):
            stranger.names()
        self.hub.status = 403
        with pytest.raises(BackupFailed, match="backup b cannot be written"):
            self.put(target, tmp_path, "b")


class TestHuggingFaceLarge(TestHuggingFace):
    """Large files, which the Hub keeps beside the repository."""

    large = True
