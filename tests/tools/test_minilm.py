import json
from pathlib import Path

import pytest

from projections.vectors.model_files import MODEL_FILE, packaged_model, sha256_of
from tools.minilm.build import sample_texts, weights_folder
from tools.minilm.graph import Shape, write_graph

INT8_SHA256 = "e8def8905e5650336c47015fc9548fb21f614d9270b85ce7e623a5b48da8b7af"


def test_the_sample_is_varied():
    """At least 64 different texts, from a word to more than the model's window, ASCII and not."""
    texts = sample_texts()
    assert len(set(texts)) == len(texts) >= 64
    assert min(map(len, texts)) < 5
    assert max(len(text.split()) for text in texts) > 256
    assert 10 < sum(not text.isascii() for text in texts) < len(texts) // 2


def test_the_int8_graph_of_the_packaged_weights_is_always_the_same_bytes(tmp_path: Path):
    """Its vectors are in indexes and caches under a name: another graph needs another name (see `model_files.py`)."""
    write_graph(weights_folder(), tmp_path / MODEL_FILE, "int8")
    assert sha256_of(tmp_path / MODEL_FILE) == INT8_SHA256


def test_the_installed_model_has_that_graph():
    assert sha256_of(packaged_model() / MODEL_FILE) == INT8_SHA256


@pytest.mark.parametrize("change", [{"model_type": "roberta"}, {"hidden_act": "relu"}], ids=str)
def test_an_encoder_of_another_kind_is_refused(tmp_path: Path, change: dict[str, str]):
    config = json.loads((weights_folder() / "config.json").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ValueError, match="only BERT"):
        Shape.read(tmp_path / "config.json")
