from projections.embedding.export import sample_texts


def test_the_sample_is_varied():
    """At least 64 different texts, from a word to more than the model's window, ASCII and not."""
    texts = sample_texts()
    assert len(set(texts)) == len(texts) >= 64
    assert min(map(len, texts)) < 5
    assert max(len(text.split()) for text in texts) > 256
    assert 10 < sum(not text.isascii() for text in texts) < len(texts) // 2
