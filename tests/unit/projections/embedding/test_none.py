import pytest

from projections.vectors.embedder import Embedder, NoEmbedder


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "", "\0"]])
def test_no_embedder_gives_vectors_of_no_dimensions(texts: list[str]):
    embedder: Embedder = NoEmbedder()
    assert embedder.dimensions == 0
    assert embedder.embed(texts).shape == (len(texts), 0)
