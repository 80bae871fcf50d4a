"""What every place for an archive must do: keep files whole, list them, delete them, and say what is wrong with it.

Left open: what a place does with folders, and how fast it is.
"""

import os
from pathlib import Path

import pytest

from ingest.errors import ArchiveUnavailable
from ingest.log.archive.segments import MissingFile
from ingest.log.archive.store import DirectoryStore, Store, UrlStore, store_of


class StoreConformance:
    """Each place subclasses this and gives the fixture `store`."""

    def test_what_was_written_is_read(self, store: Store):
        store.write("01A/p00/one", b"\x00 bytes \xff")
        assert store.read("01A/p00/one") == b"\x00 bytes \xff"

    def test_a_later_write_takes_the_place_of_an_earlier_one(self, store: Store):
        store.write("01A/one", b"longer at first")
        store.write("01A/one", b"short")
        assert store.read("01A/one") == b"short"

    def test_a_file_that_is_not_there_is_missing(self, store: Store):
        store.write("01A/one", b"1")
        for path in ("01A/two", "01B/one"):
            with pytest.raises(MissingFile, match=path):
                store.read(path)

    def test_names_are_those_of_one_folder(self, store: Store):
        for path in ("01A/p00/two", "01A/p00/one", "01A/p01/three", "01B/p00/four"):
            store.write(path, b"1")
        assert store.names("01A/p00") == ["one", "two"]
        assert store.names("01A") == ["p00", "p01"]
        assert store.names("") == ["01A", "01B"]
        assert store.names("01C") == []

    def test_a_new_file_is_listed_at_once(self, store: Store):
        """Listings are not from memory: another process may have written."""
        store.write("01A/one", b"1")
        assert store.names("01A") == ["one"]
        store.write("01A/two", b"2")
        assert store.names("01A") == ["one", "two"]

    def test_deleted_files_are_gone_and_one_that_is_not_there_is_no_error(self, store: Store):
        store.write("01A/one", b"1")
        store.write("01A/two", b"2")
        store.delete(["01A/one", "01A/never"])
        store.delete(["01A/one"])
        store.delete([])
        assert store.names("01A") == ["two"]


class TestDirectoryStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return DirectoryStore(tmp_path / "deep" / "archive")

    def test_files_are_for_their_owner_alone(self, store: Store, tmp_path: Path):
        store.write("01A/p00/one", b"1")
        path = tmp_path / "deep/archive/01A/p00/one"
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0

    def test_a_write_that_is_killed_leaves_the_file_as_it_was(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """What it left beside is listed, so that it can be deleted."""
        store.write("01A/one", b"first")

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", killed)
            with pytest.raises(KeyboardInterrupt):
                store.write("01A/one", b"second")
        assert store.read("01A/one") == b"first"
        assert store.names("01A") == [".writing-one", "one"]

    def test_a_place_that_is_no_folder_is_unavailable(self, tmp_path: Path):
        (tmp_path / "file").write_text("no folder")
        with pytest.raises(ArchiveUnavailable, match="cannot be written"):
            DirectoryStore(tmp_path / "file").write("01A/one", b"1")


class TestUrlStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return UrlStore(f"memory://{tmp_path}/")


def test_a_setting_names_a_directory_or_a_url(tmp_path: Path):
    assert str(store_of(str(tmp_path))) == str(tmp_path)
    assert str(store_of(f"file://{tmp_path}")) == str(tmp_path)
    assert str(store_of("~/archive")) == str(Path("~/archive").expanduser())
    assert str(store_of("memory://somewhere/")) == "memory://somewhere"
