from itertools import pairwise

import pytest

from projections.vectors.embedder import MAX_CHUNKS, MAX_TOKENS, OVERLAP, chunk, estimated_tokens

SENTENCE = "The lease was lost and another worker took the partition over within ten seconds. "


def numbered_words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def test_a_short_text_comes_back_unchanged():
    assert chunk("  likes tea\n") == ["  likes tea\n"]


@pytest.mark.parametrize("blank", ["", " ", "\n\t \n"])
def test_a_blank_text_has_no_chunk(blank: str):
    assert chunk(blank) == []


def test_every_word_of_a_long_text_is_in_a_chunk_and_the_order_is_kept():
    words = numbered_words(700).split()
    parts = [part.split() for part in chunk(" ".join(words), max_words=50)]
    assert list(dict.fromkeys(word for part in parts for word in part)) == words
    assert all(len(part) <= 50 for part in parts)


def test_neighbouring_chunks_overlap_a_little():
    first, second, *_ = (part.split() for part in chunk(SENTENCE * 60))
    shared = next(size for size in range(OVERLAP, 0, -1) if first[-size:] == second[:size])
    assert 0 < shared <= OVERLAP


def test_a_chunk_ends_with_a_sentence_where_it_can():
    assert all(part.endswith("seconds.") for part in chunk(SENTENCE * 60))


def test_a_chunk_ends_with_a_line_where_it_can():
    line = "step done and no full stop here"
    assert all(part.endswith("here") for part in chunk("\n".join([line] * 100)))


def test_text_without_spaces_is_split_by_characters():
    parts = chunk("x" * 5_000)
    assert len(parts) > 1
    assert set("".join(parts)) == {"x"}
    assert len("".join(parts)) >= 5_000


def test_dense_text_is_cut_earlier_than_prose():
    """A word of code is several tokens: what counts is the model's window, not the number of words."""
    dense = " ".join(f"/srv/app-{number:04x}/v1.2.{number}/config.json" for number in range(200))
    parts = chunk(dense)
    assert max(len(part.split()) for part in parts) < 40
    assert all(sum(estimated_tokens(word) for word in part.split()) <= MAX_TOKENS for part in parts)


@pytest.mark.parametrize(
    "text", [SENTENCE * 100_000, "x" * 5_000_000, "语" * 100_000, "\0 " * 50_000, "\ud800" * 9_000]
)
def test_a_document_has_at_most_32_chunks(text: str):
    assert len(chunk(text)) == MAX_CHUNKS


@pytest.mark.parametrize("max_words", [1, 2, 5])
def test_tiny_chunks_still_make_progress(max_words: int):
    assert chunk("a b c d e f g h", max_words=max_words)[-1].endswith("h")


def test_chunks_of_no_words_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        chunk("a b", max_words=0)


@pytest.mark.parametrize("count", [6_000, 20_000, 200_000])
def test_the_parts_of_a_long_text_are_spread_from_its_beginning_to_its_end(count: int):
    text = " ".join(f"w{number:06}" for number in range(count))
    parts = [[int(word[1:]) for word in part.split()] for part in chunk(text)]
    assert len(parts) == MAX_CHUNKS
    assert (parts[0][0], parts[-1][-1]) == (0, count - 1)
    starts = [part[0] for part in parts]
    assert all(part == list(range(part[0], part[-1] + 1)) for part in parts), "each is a stretch of whole words"
    gaps = [after - before for before, after in pairwise(starts)]
    assert max(gaps) < 1.2 * count / MAX_CHUNKS
    assert all(sum(estimated_tokens(f"w{word:06}") for word in part) <= MAX_TOKENS for part in parts)
