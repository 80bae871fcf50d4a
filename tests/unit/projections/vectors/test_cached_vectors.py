import numpy as np
import pytest

from projections.vectors.embedder import WrongVectorLength, cache_key, pack, unit_rows, unpack

UNITS = unit_rows(np.random.default_rng(7).standard_normal((200, 384)).astype(np.float32))


def test_a_key_is_32_bytes_and_differs_by_model_and_text():
    keys = {cache_key(model, text) for model in ("a", "ab") for text in ("b", "", "bb", "b\0", "\ud800", "é")}
    assert len(keys) == 12
    assert {len(key) for key in keys} == {32}


def test_a_key_never_changes():
    """Keys are stored: another way to compute them would throw every cached vector away."""
    assert cache_key("m", "likes tea").hex() == "b6c8040b9fa8728033f8a4eeecc7b0cfcca885e7758057a558520d73b719ed91"


def test_a_model_with_nul_in_its_name_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        cache_key("a\0b", "c")


def test_packing_keeps_the_direction():
    """float16 costs a cosine of less than 1e-6, a thousandth of what is allowed."""
    back = np.array([unpack(pack(vector), 384) for vector in UNITS])
    assert back.dtype == np.float32
    assert np.allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
    assert (1 - (back * UNITS).sum(axis=1)).max() < 1e-6


def test_a_vector_takes_two_bytes_a_dimension():
    assert len(pack(UNITS[0])) == 768


@pytest.mark.parametrize("packed", [b"", b"\0" * 767, b"\0" * 770])
def test_bytes_of_another_length_are_refused(packed: bytes):
    with pytest.raises(WrongVectorLength) as raised:
        unpack(packed, 384)
    assert (raised.value.expected, raised.value.actual) == (768, len(packed))


def test_a_vector_of_no_dimensions_survives():
    assert unpack(pack(np.zeros(0, dtype=np.float32)), 0).shape == (0,)
