import base64
import json
from typing import Any

import pytest

from api.dialects.fitting import MAX_BYTES, cut, fitted
from ingest.secrets.scrub import MAX_DEPTH

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))).decode()


def depth(value: Any) -> int:
    """How many levels a value nests."""
    levels = 0
    while isinstance(value, dict | list) and value:
        levels, value = levels + 1, next(iter(value.values() if isinstance(value, dict) else value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return levels


def test_what_fits_stays_as_it_is():
    data = {"tool_name": "Edit", "tool_input": {"path": "/9j/short", "n": [1, None, 2.5, True]}, "prompt": "x" * 9_000}
    assert fitted(data) == (data, "", "")


def test_only_the_texts_that_are_too_long_are_cut():
    found = fitted({"tool_name": "Write", "tool_input": {"path": "a", "content": "x y " * 500_000}, "note": "n" * 500})
    assert found.data["note"] == "n" * 500
    assert found.data["tool_input"]["path"] == "a"
    assert found.data["tool_input"]["content"].endswith("[cut: 65,536 of 2,000,000 characters are kept]")


def test_a_text_is_cut_after_its_secrets_are_out_so_that_no_half_of_one_is_left():
    assert "ghp_" not in cut("x" * 50 + " ghp_" + "a" * 36 + " and more", 60)
    assert "hidden" not in cut("x" * 50 + " <private>hidden away</private> and more", 66)


@pytest.mark.parametrize(
    "data",
    [
        {"numbers": list(range(1_000_000)), "tool_name": "T"},
        {f"field {n}": "x" * 20 for n in range(100_000)},
        {"quoted": ['"' * 2_000] * 2_000},
        {"long": {"x" * 3_000_000: 1}},
        {"many": ["x" * 1_000] * 10_000},
    ],
)
def test_everything_is_made_to_fit(data: dict[str, Any]):
    found = fitted(data).data
    assert len(json.dumps(found, ensure_ascii=False).encode()) <= MAX_BYTES
    assert found.get("tool_name", "T") == "T"
    assert "kept" in json.dumps(found)


def test_what_nests_deeper_than_a_write_may_is_told_as_text():
    nested: dict[str, Any] = {}
    for _ in range(300):
        nested = {"a": nested}
    assert 100 < depth(fitted({"tool_input": nested}).data) < MAX_DEPTH


@pytest.mark.parametrize("image", [PNG, f"data:image/png;base64,{PNG}"])
def test_the_same_image_has_the_same_name_wherever_it_is(image: str):
    alone, nested = fitted({"tool_name": "Shot", "image_data": image}), fitted({"out": [{"src": image}], "text": "see"})
    assert (alone.modality, nested.modality) == ("image", "mixed")
    assert alone.image == nested.image
    assert alone.image.endswith(".png")
    assert nested.data["out"][0]["src"] == f"[image {alone.image}: {len(PNG)} characters of base64, not kept]"


def test_a_number_over_64_bits_is_kept_as_text():
    assert fitted({"n": 10**30, "m": -(2**63), "k": 2**64 - 1}).data == {
        "n": str(10**30),
        "m": -(2**63),
        "k": 2**64 - 1,
    }


def test_an_image_of_a_few_bytes_is_named_too():
    found = fitted({"tool_name": "Shot", "src": "data:image/gif;base64,R0lGODlhAQABAAAAACw="})
    assert found.modality == "image"
    assert found.data["src"] == f"[image {found.image}: 20 characters of base64, not kept]"
