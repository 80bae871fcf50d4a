"""The dictionary of an index: tantivy over terms that are stemmed already. The one file that imports tantivy.

Added documents are found after the next commit; until then they are the replica's tail.
"""

import shutil
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

import tantivy

_WRITER_HEAP = 64 << 20
"""Bound of what tantivy buffers before it writes a segment by itself."""
MAX_QUERY_TERMS = 64
"""A query longer than that is a document; its first distinct terms say what it is about."""
NEAR = 4_096
"""Documents with a term like a mistaken one: each takes a microsecond."""


class Lexical:
    """An inverted index of one folder, with one writer. Belongs to the replica's index thread."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field("ordinal", stored=False, indexed=True, fast=True)
        builder.add_text_field("terms", stored=True, tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field("facets", stored=False, tokenizer_name="raw", index_option="basic")
        self._schema = builder.build()
        self._index = tantivy.Index(self._schema, path=str(folder), reuse=True)
        self._index.config_reader(reload_policy="manual")
        self._writer = self._index.writer(heap_size=_WRITER_HEAP, num_threads=1)
        self._searcher = self._index.searcher()

    def add(self, ordinal: int, terms: str, facets: Iterable[str]) -> None:
        """Queue a document for the next commit."""
        document = tantivy.Document()
        document.add_unsigned("ordinal", ordinal)
        document.add_text("terms", terms)
        for key in facets:
            document.add_text("facets", key)
        self._writer.add_document(document)

    def remove(self, ordinal: int) -> None:
        """Queue a document's removal for the next commit."""
        # by query: tantivy-py's delete by term takes the number for a signed one and finds nothing in an unsigned field
        self._writer.delete_documents_by_query(tantivy.Query.term_query(self._schema, "ordinal", ordinal))

    def commit(self) -> None:
        """Make what was queued findable."""
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def saying(self, term: str) -> list[int]:
        """The ordinals of the committed documents that say a term, in no order."""
        query = tantivy.Query.term_query(self._schema, "terms", term, "basic")
        hits = self._searcher.search(query, limit=max(1, self.frequency(term)), count=False).hits
        return self._ordinals([address for _, address in hits])

    def frequency(self, term: str) -> int:
        """How many committed documents say a term; removed ones count until their segment is merged."""
        return self._searcher.doc_freq("terms", term)

    def near(
        self, term: str, edits: int, facets: Sequence[Sequence[str]], matching: Container[int], count: int
    ) -> list[str]:
        """The terms of the first `count` matching documents, by ordinal, that say a term so many letters away.

        Only committed ones; those that do not match take no places. Up to NEAR of all are looked at.
        """
        near = tantivy.Query.fuzzy_term_query(self._schema, "terms", term, edits, True)
        parts = [(tantivy.Occur.Must, one) for one in (near, *map(self._having, facets))]
        hits = self._searcher.search(tantivy.Query.boolean_query(parts), limit=NEAR, count=False).hits
        places = [address for _, address in hits]
        found = sorted(
            (ordinal, address.segment_ord, address.doc)
            for ordinal, address in zip(self._ordinals(places), places, strict=True)
            if ordinal in matching
        )
        addresses = (tantivy.DocAddress(segment, document) for _, segment, document in found[:count])
        return [self._searcher.doc(address).get_first("terms") or "" for address in addresses]

    def all_terms(self) -> Iterator[tuple[int, str]]:
        """The ordinal and the terms of every committed document, in no order. Reads all of the files."""
        found = self._searcher.search(tantivy.Query.all_query(), limit=max(1, self._searcher.num_docs), count=False)
        places = [address for _, address in found.hits]
        for ordinal, address in zip(self._ordinals(places), places, strict=True):
            yield ordinal, self._searcher.doc(address).get_first("terms") or ""

    def _ordinals(self, places: list[tantivy.DocAddress]) -> list[int]:
        return [int(ordinal or 0) for ordinal in self._searcher.fast_field_values("ordinal", places)]

    def _having(self, group: Sequence[str]) -> tantivy.Query:
        if len(group) == 1:  # half the time: a set is looked for in all of the dictionary
            return tantivy.Query.term_query(self._schema, "facets", group[0], "basic")
        return tantivy.Query.term_set_query(self._schema, "facets", list(group))

    def copy_to(self, folder: Path) -> None:
        """Write the committed index into a new folder. Segments never change, so they are linked where possible."""
        self._writer.wait_merging_threads()
        link_or_copy(self.folder, folder)
        self._writer = self._index.writer(heap_size=_WRITER_HEAP, num_threads=1)


def link_or_copy(source: Path, target: Path) -> None:
    """Copy a folder of write-once files by hard links where possible; its metadata byte for byte, its locks not."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name.endswith(".lock"):
            continue
        if path.suffix == ".json":
            shutil.copy2(path, target / path.name)
            continue
        try:
            (target / path.name).hardlink_to(path)
        except OSError:
            shutil.copy2(path, target / path.name)
