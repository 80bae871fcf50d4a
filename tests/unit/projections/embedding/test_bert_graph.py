import json
from pathlib import Path

import pytest

from projections.embedding.distill import Shape, write_graph
from projections.vectors.model_files import MODEL_FILE, packaged_model, sha256_of

INT8_SHA256 = "e8def8905e5650336c47015fc9548fb21f614d9270b85ce7e623a5b48da8b7af"


def test_the_int8_graph_of_the_packaged_weights_is_always_the_same_bytes(tmp_path: Path):
    """Its vectors are in indexes and caches under a name: another graph needs another one (see `model_files.py`)."""
    write_graph(packaged_model(), tmp_path / MODEL_FILE, int8=True)
    assert sha256_of(tmp_path / MODEL_FILE) == INT8_SHA256


@pytest.mark.parametrize("change", [{"model_type": "roberta"}, {"hidden_act": "relu"}], ids=str)
def test_an_encoder_of_another_kind_is_refused(tmp_path: Path, change: dict[str, str]):
    config = json.loads((packaged_model() / "config.json").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ValueError, match="only BERT"):
        Shape.read(tmp_path / "config.json")
