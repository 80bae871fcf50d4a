from pathlib import Path

import pytest

from projections.embedding.embedder import ModelUnavailable, NoEmbedder, UnknownEmbedder
from projections.embedding.factory import build_embedder


def test_none_is_built_without_any_model():
    assert isinstance(build_embedder("none"), NoEmbedder)


def test_an_openai_spec_names_server_model_and_dimensions():
    embedder = build_embedder("openai:http://127.0.0.1:9/v1|nomic|embed|768")
    assert (embedder.model, embedder.dimensions) == ("openai/nomic|embed:768", 768)


@pytest.mark.parametrize(
    "spec",
    ["", "word2vec", "none:x", "default:x", "onnx:", "sentence-transformers:", "openai:", "openai:http://h|m",
     "openai:http://h:port|m|3", "openai:http://[h|m|3", "openai:http://|m|3", "openai:ftp://h|m|3",
     "openai:http://h|m|many", "openai:http://h|m|0", "openai:h|m|3", "openai:http://h||3"],
)  # fmt: skip
def test_an_unknown_spec_is_refused(spec: str):
    with pytest.raises(UnknownEmbedder) as raised:
        build_embedder(spec)
    assert raised.value.spec == spec


def test_torch_can_be_ruled_out():
    with pytest.raises(UnknownEmbedder, match="torch"):
        build_embedder("sentence-transformers:any", allow_torch=False)


def test_a_directory_without_a_model_is_refused(tmp_path: Path):
    with pytest.raises(ModelUnavailable):
        build_embedder(f"onnx:{tmp_path}")


@pytest.mark.parametrize(
    "url", ["http://ada:pa55word@h/v1", "http://pa55word@h/v1", "http://h/v1?key=pa55word", "http://h/v1#pa55word",
            "http://trusted.example@h/v1"],
)  # fmt: skip
def test_a_url_that_carries_a_secret_is_refused(url: str):
    with pytest.raises(UnknownEmbedder, match="a key belongs in MNEMOLOG_EMBEDDER_KEY"):
        build_embedder(f"openai:{url}|m|3")


def test_a_password_in_a_url_is_not_told():
    with pytest.raises(UnknownEmbedder) as raised:
        build_embedder("openai:http://ada:pa55word@h/v1|m|3")
    assert "pa55word" not in str(raised.value)
