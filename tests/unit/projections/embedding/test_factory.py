import re
import sys
from pathlib import Path

import pytest

from projections.embedding import factory, onnx
from projections.embedding.factory import build_embedder, exact_graph, load_default
from projections.embedding.onnx import OnnxEmbedder
from projections.vectors.embedder import ModelUnavailable, NoEmbedder, UnknownEmbedder
from projections.vectors.model_files import FALLBACK_MODEL, MODEL_FILE, packaged_model


def test_none_is_built_without_any_model():
    assert isinstance(build_embedder("none"), NoEmbedder)


def test_an_openai_spec_names_server_model_and_dimensions():
    embedder = build_embedder("openai:http://127.0.0.1:9/v1|nomic|embed|768")
    assert (embedder.model, embedder.dimensions) == ("openai/nomic|embed:768", 768)


@pytest.mark.parametrize(
    "spec",
    ["", "word2vec", "none:x", "default:x", "multilingual:x", "onnx:", "sentence-transformers:", "openai:", "openai:http://h|m",
     "openai:http://h:port|m|3", "openai:http://[h|m|3", "openai:http://|m|3", "openai:ftp://h|m|3",
     "openai:http://h|m|many", "openai:http://h|m|0", "openai:h|m|3", "openai:http://h||3"],
)  # fmt: skip
def test_an_unknown_spec_is_refused(spec: str):
    with pytest.raises(UnknownEmbedder, match=re.escape(f"embedder {spec!r}: ")):
        build_embedder(spec)


def test_a_model_of_sentence_transformers_names_the_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "projections.embedding.sentence_transformer", raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailable) as raised:
        build_embedder("sentence-transformers:any")
    assert "pip install 'mnemolog[sentence-transformers]'" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_multilingual_model_names_the_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(factory, "MULTILINGUAL_PACKAGE", "no_such_package")
    with pytest.raises(ModelUnavailable, match="the package is not installed: pip install no-such-package"):
        build_embedder("multilingual")


def counted(monkeypatch: pytest.MonkeyPatch, cosine: float) -> list[Path]:
    """Every comparison of int8 with the original from now on, which gives this cosine."""
    compared = list[Path]()

    def mean_cosine(embedder: OnnxEmbedder, directory: Path) -> float:
        compared.append(directory)
        return cosine

    monkeypatch.setattr(onnx, "mean_cosine", mean_cosine)
    return compared


def test_int8_is_compared_with_the_original_once_for_each_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compared = counted(monkeypatch, 0.997)
    assert [exact_graph(packaged_model(), tmp_path) for _ in range(3)] == [MODEL_FILE] * 3
    assert len(compared) == 1
    monkeypatch.setattr(factory, "_processor", lambda: "another one")
    assert exact_graph(packaged_model(), tmp_path) == MODEL_FILE
    assert len(compared) == 2


def test_where_int8_is_not_exact_the_same_weights_are_multiplied_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    counted(monkeypatch, 0.94)
    assert load_default(tmp_path).model == FALLBACK_MODEL
    assert load_default(tmp_path).model == FALLBACK_MODEL, "also by the stored result"
    assert "int8 arithmetic is not exact on this processor (mean cosine 0.940)" in caplog.text


@pytest.mark.parametrize("stored", ["", "no number"])
def test_a_stored_result_that_cannot_be_read_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str
):
    compared = counted(monkeypatch, 0.997)
    exact_graph(packaged_model(), tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(stored)
    assert exact_graph(packaged_model(), tmp_path) == MODEL_FILE
    assert len(compared) == 2
    assert file.read_text() == "0.997"


def test_a_cache_that_is_not_writable_only_costs_another_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compared = counted(monkeypatch, 0.997)
    (tmp_path / "file").touch()
    assert [exact_graph(packaged_model(), tmp_path / "file") for _ in range(2)] == [MODEL_FILE] * 2
    assert len(compared) == 2


def test_a_directory_without_a_model_is_refused(tmp_path: Path):
    with pytest.raises(ModelUnavailable):
        build_embedder(f"onnx:{tmp_path}")


@pytest.mark.parametrize(
    "url", ["http://ada:pa55word@h/v1", "http://pa55word@h/v1", "http://h/v1?key=pa55word", "http://h/v1#pa55word",
            "http://trusted.example@h/v1"],
)  # fmt: skip
def test_a_url_that_carries_a_secret_is_refused(url: str):
    with pytest.raises(UnknownEmbedder, match="put the key in MNEMOLOG_EMBEDDER_KEY"):
        build_embedder(f"openai:{url}|m|3")


def test_a_password_in_a_url_is_not_told():
    with pytest.raises(UnknownEmbedder) as raised:
        build_embedder("openai:http://ada:pa55word@h/v1|m|3")
    assert "pa55word" not in str(raised.value)
