"""What every place for backups promises: whole or not there, given back as it was, gone for good when deleted.

Left open: where a place keeps its files, and how a reader that fetches one while it is deleted fares.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import msgspec
import pytest
from hub_stub import REPOSITORY, TOKEN, HubStub

from ingest.errors import InvalidSetting
from ingest.log.segments import MissingFile
from ingest.log.store import DirectoryStore, Store, UrlStore
from projections.maintenance.backups import MANIFEST, BackupFailed, StoreTarget, Target
from projections.maintenance.hugging_face import HuggingFaceTarget

SECRET = b"zqxvkmarker7"
SEGMENT = "segment-0000000001-0123456789abcdef-p00.zst"
A, B, C = (f"2026013{n}T120000.000000Z-0000000{n}" for n in range(3))
NEVER = "20260130T120000.000000Z-ffffffff"

# of the library itself, which hands a file to its HTTP client by an old name
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def manifest_of(name: str, log: str = "log") -> bytes:
    """As much of a manifest as a place looks at."""
    return msgspec.json.encode({"name": name, "log": log, "heads": {}, "forgotten": 0})


class TargetConformance(ABC):
    """One suite for all places. A place says itself what bytes it has, history and all."""

    @pytest.fixture
    @abstractmethod
    def target(self) -> Target:
        """An empty place, which does not exist yet."""

    @abstractmethod
    def everything(self) -> bytes:
        """All bytes of the place."""

    def put(self, target: Target, tmp_path: Path, name: str, content: bytes = b"entries", log: str = "log") -> None:
        """Keep a backup."""
        folder = tmp_path / f"made-{name}"
        folder.mkdir()
        (folder / SEGMENT).write_bytes(content)
        (folder / MANIFEST).write_bytes(manifest_of(name, log))
        target.put(name, folder)

    def test_a_place_that_does_not_exist_has_none(self, target: Target):
        assert target.names() == []
        target.delete([NEVER])

    def test_names_are_in_order_and_files_come_back_as_they_were(self, target: Target, tmp_path: Path):
        for name in (B, A, C):
            self.put(target, tmp_path, name, name.encode() * 70_000)
        assert target.names() == [A, B, C]
        for name in target.names():
            assert target.read(name, SEGMENT, tmp_path / "work") == name.encode() * 70_000
            assert target.read(name, MANIFEST, tmp_path / "work") == manifest_of(name)

    def test_a_file_that_is_not_there_is_named(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A)
        with pytest.raises(MissingFile, match=rf"{A}.*other\.zst"):
            target.read(A, "other.zst", tmp_path / "work")
        with pytest.raises(MissingFile, match=NEVER):
            target.read(NEVER, SEGMENT, tmp_path / "work")

    def test_what_is_deleted_is_gone_with_its_history(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A, SECRET)
        self.put(target, tmp_path, B, b"the kettle is green")
        assert SECRET in self.everything()
        target.delete([A, NEVER])
        assert target.names() == [B]
        assert SECRET not in self.everything()
        assert target.read(B, SEGMENT, tmp_path / "work") == b"the kettle is green"
        target.delete([B])
        assert target.names() == []

    def test_a_content_that_another_backup_has_too_stays(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A, b"the same")
        self.put(target, tmp_path, B, b"the same")
        target.delete([A])
        assert target.read(B, SEGMENT, tmp_path / "work") == b"the same"


class StoreTargetConformance(TargetConformance):
    """What holds of every store."""

    store: Store

    def test_one_that_was_being_written_is_not_there_and_goes_with_the_next_of_its_log(
        self, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        write = self.store.write

        def killed_at_the_manifest(path: str, data: bytes) -> None:
            if path.endswith(f"/{MANIFEST}"):
                raise KeyboardInterrupt
            write(path, data)

        with monkeypatch.context() as patched:
            patched.setattr(self.store, "write", killed_at_the_manifest)
            for name, log in ((A, "log"), (B, "another")):
                with pytest.raises(KeyboardInterrupt):
                    self.put(target, tmp_path, name, SECRET, log)
        write("unrelated/notes.txt", b"of somebody else")
        assert target.names() == []
        assert SECRET in self.everything()
        self.put(target, tmp_path, C)
        assert target.names() == [C]
        assert self.store.names(A) == []
        assert self.store.names(B) != [], "another log's may be under way"
        assert self.store.names(C) == [MANIFEST, SEGMENT]
        assert self.store.names("unrelated") == ["notes.txt"]

    def test_a_deletion_that_was_interrupted_can_be_repeated(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A)
        self.store.delete([f"{A}/{SEGMENT}"])
        assert target.names() == [A]
        target.delete([A])
        assert self.store.names(A) == []

    def test_one_whose_files_vanish_while_it_is_written_is_no_backup(
        self, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        names = self.store.names

        def without_a_segment(folder: str = "") -> list[str]:
            return [name for name in names(folder) if name != SEGMENT]

        monkeypatch.setattr(self.store, "names", without_a_segment)
        with pytest.raises(BackupFailed, match="another process deleted its files"):
            self.put(target, tmp_path, A)
        assert target.names() == []


class TestUrl(StoreTargetConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> StoreTarget:
        self.store = UrlStore(f"memory://{tmp_path}")
        return StoreTarget(self.store)

    def everything(self) -> bytes:
        return b"\n".join(
            self.store.read(f"{folder}/{name}") for folder in self.store.names("") for name in self.store.names(folder)
        )


class TestDirectory(StoreTargetConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> StoreTarget:
        self.directory = tmp_path / "backups"
        self.store = DirectoryStore(self.directory)
        return StoreTarget(self.store)

    def everything(self) -> bytes:
        return b"\n".join(path.read_bytes() for path in sorted(self.directory.rglob("*")) if path.is_file())

    def test_a_deleted_one_leaves_no_folder(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A)
        target.delete([A])
        assert list(self.directory.iterdir()) == []

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(BackupFailed, match=f"{tmp_path}/file/below"):
            self.put(StoreTarget(DirectoryStore(tmp_path / "file" / "below")), tmp_path, A)

    def test_others_may_not_read_it(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A)
        assert [path.stat().st_mode & 0o077 for path in (self.directory, self.directory / A)] == [0, 0]


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
        self.put(target, tmp_path, A)
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
        self.put(target, tmp_path, A, SECRET)
        self.hub.squashes = False
        with pytest.raises(BackupFailed, match="cannot be deleted"):
            target.delete([A])
        assert target.names() == [A], "it is still there to be deleted"
        self.hub.squashes = True
        target.delete([A])
        assert target.names() == []
        assert SECRET not in self.everything()

    def test_a_backup_is_one_commit(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A)
        assert self.hub.commits is not None
        assert [sorted(tree) for tree in self.hub.commits] == [[], [f"{A}/{MANIFEST}", f"{A}/{SEGMENT}"]]

    def test_a_hub_that_refuses_is_told_from_one_that_has_none(self, target: Target, tmp_path: Path):
        self.put(target, tmp_path, A)
        stranger = HuggingFaceTarget(REPOSITORY, "hf_wrong", self.hub.url)
        with pytest.raises(BackupFailed, match=r"hf://datasets/ada/memories cannot be read.*401"):
            stranger.names()
        self.hub.status = 403
        with pytest.raises(BackupFailed, match=f"backup {B} cannot be written"):
            self.put(target, tmp_path, B)


class TestHuggingFaceLarge(TestHuggingFace):
    """Large files, which the Hub keeps beside the repository."""

    large = True
