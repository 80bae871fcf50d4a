import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from projections.vectors.embedder import ModelUnavailable
from projections.vectors.model_files import (
    DEFAULT_MODEL,
    FALLBACK_FILE,
    FALLBACK_MODEL,
    MANIFEST_FILE,
    MODEL_FILE,
    STATIC_TOKENIZER_FILE,
    STATIC_WEIGHTS_FILE,
    TOKENIZER_FILE,
    ModelManifest,
    packaged_model,
    read_manifest,
    sha256_of,
    verify,
)

FILES = (MODEL_FILE, FALLBACK_FILE, TOKENIZER_FILE, STATIC_WEIGHTS_FILE, STATIC_TOKENIZER_FILE)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / STATIC_WEIGHTS_FILE).parent.mkdir()
    for name in FILES:
        (tmp_path / name).write_text(name)
    files = {name: sha256_of(tmp_path / name) for name in FILES}
    write(tmp_path, ModelManifest({MODEL_FILE: "m:int8", FALLBACK_FILE: "m:other"}, 384, 256, files, "00"))
    return tmp_path


def write(directory: Path, manifest: ModelManifest) -> None:
    (directory / MANIFEST_FILE).write_text(json.dumps(asdict(manifest)))


def test_an_intact_model_verifies(model: Path):
    assert verify(model).graph == MODEL_FILE


def test_the_installed_model_is_intact():
    assert verify(packaged_model()).models == {MODEL_FILE: DEFAULT_MODEL, FALLBACK_FILE: FALLBACK_MODEL}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_reported(model: Path, name: str):
    (model / name).write_text("damaged")
    with pytest.raises(ModelUnavailable, match="damaged"):
        verify(model)


@pytest.mark.parametrize("name", [*FILES, MANIFEST_FILE])
def test_a_missing_file_is_reported(model: Path, name: str):
    (model / name).unlink()
    with pytest.raises(ModelUnavailable):
        verify(model)


@pytest.mark.parametrize("name", [MODEL_FILE, FALLBACK_FILE, TOKENIZER_FILE])
def test_a_graph_and_the_tokenizer_must_be_in_the_manifest(model: Path, name: str):
    manifest = read_manifest(model)
    write(model, replace(manifest, files={file: digest for file, digest in manifest.files.items() if file != name}))
    with pytest.raises(ModelUnavailable):
        verify(model)


def test_a_package_that_is_not_installed_is_reported_with_the_command_that_installs_it():
    with pytest.raises(ModelUnavailable, match="pip install mnemolog-nothing"):
        packaged_model("mnemolog_nothing")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model": "m"}', "\0"])
def test_a_manifest_that_cannot_be_read_is_refused(model: Path, content: str):
    (model / MANIFEST_FILE).write_text(content)
    with pytest.raises(ModelUnavailable):
        verify(model)
