"""Secrets as people and programs spell them are removed, and texts that only look like some stay as they are."""

from pathlib import Path
from random import Random

import pytest
from secret_innocents import INNOCENTS
from secret_shapes import samples
from secret_spellings import LATER, SPELLINGS, held_out

from ingest.secrets import scrub
from ingest.secrets.scrub import scrub_text

SEEDS = range(3)
REMOVED = 0.97
ALTERED = 0.005


PARTS = {
    "seen": {name: shape for name, shape in SPELLINGS.items() if not held_out(name)},
    "held out": {name: shape for name, shape in SPELLINGS.items() if held_out(name)},
    "later": LATER,
}


@pytest.mark.parametrize("part", PARTS)
def test_spellings_of_secrets_are_removed(part: str):
    shapes = PARTS[part]
    leaks = {one.name for seed in SEEDS for one in samples(shapes, seed) if one.leaks(scrub_text(one.text))}
    assert len(leaks) <= (1 - REMOVED) * len(shapes), sorted(leaks)


def test_texts_without_a_secret_stay_as_they_are():
    innocents = {shape: f"{shape}«»" for shape in INNOCENTS}
    assert len(innocents) >= 200
    altered = {one.name for seed in SEEDS for one in samples(innocents, seed) if scrub_text(one.text) != one.text}
    assert len(altered) <= ALTERED * len(innocents), sorted(altered)


def test_lists_of_common_words_are_no_phrase():
    """All of these words are in the list of BIP-39, and one in sixteen runs of them has a valid checksum."""
    words = Path(scrub.__file__).with_name("bip39.txt").read_text().split()
    lists = [" ".join(Random(seed).choices(words, k=40)) for seed in range(100)]
    for text in ("word " * 100_000, "test " * 12, "zoo " * 24, *lists):
        assert scrub_text(text) is text
