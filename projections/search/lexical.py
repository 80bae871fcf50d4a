"""Candidates by words: tantivy's dictionary, and the BM25 of documents that a filter allows. Alone imports tantivy.

Documents are in the dictionary after the next commit; until then they are the replica's tail.

Guarantee: frequencies, scores and order are functions of the matching documents alone. Others in the same index, of
other tenants, projects or readers, change nothing.
"""

import shutil
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tantivy
from numpy.typing import NDArray

from projections.search.candidates import DocumentColumns, best_first
from projections.search.columns import TermRows
from projections.search.cues import BESIDE_TEXT, PROMPT, USER_TURN, says_only
from projections.search.question import BitMap, ordinals
from projections.search.ranking import idf_of

_WRITER_HEAP = 64 << 20
"""What tantivy buffers at most before it writes a segment."""
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
        having = [
            # of one value: a set takes twice as long, because it is searched in all of the dictionary
            tantivy.Query.term_query(self._schema, "facets", group[0], "basic")
            if len(group) == 1
            else tantivy.Query.term_set_query(self._schema, "facets", list(group))
            for group in facets
        ]
        parts = [(tantivy.Occur.Must, query) for query in (near, *having)]
        hits = self._searcher.search(tantivy.Query.boolean_query(parts), limit=NEAR, count=False).hits
        places = [address for _, address in hits]
        documents = sorted(
            (ordinal, address.segment_ord, address.doc)
            for ordinal, address in zip(self._ordinals(places), places, strict=True)
            if ordinal in matching
        )
        addresses = (tantivy.DocAddress(segment, document) for _, segment, document in documents[:count])
        return [self._searcher.doc(address).get_first("terms") or "" for address in addresses]

    def all_terms(self) -> Iterator[tuple[int, str]]:
        """The ordinal and the terms of every committed document, in no order. Reads all of the files."""
        hits = self._searcher.search(tantivy.Query.all_query(), limit=max(1, self._searcher.num_docs), count=False)
        places = [address for _, address in hits.hits]
        for ordinal, address in zip(self._ordinals(places), places, strict=True):
            yield ordinal, self._searcher.doc(address).get_first("terms") or ""

    def _ordinals(self, places: list[tantivy.DocAddress]) -> list[int]:
        return [int(ordinal or 0) for ordinal in self._searcher.fast_field_values("ordinal", places)]

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


K1, B = 1.2, 0.75
"""Tantivy's."""
READ_DIRECTLY = 1_000
"""Matching documents whose terms are all read: 0.1 ms a term, and the cache is left to bigger filters."""
RARE = 100
"""Tantivy lists the documents of a term that at most one in so many says. Scanning the terms of every document takes
0.5 ms a term among 20,000, 5 ms among 100,000."""
ASKED_FROM = 4
"""A prompt that only asks says the question's words at least once for so many of its own."""
CACHED, CACHED_A_DOCUMENT = 1_000_000, 8
"""Documents in all cached postings: 16 bytes each, so some 130 bytes a document at most."""
A_TERM = 20
"""A term counts as so many documents itself, so words in no document are bounded too."""

Documents = NDArray[np.int64]


class Posting(NamedTuple):
    """The documents that say a term, ascending, and how often each does."""

    documents: Documents
    counts: NDArray[np.int64]


NONE = Posting(np.empty(0, np.int64), np.empty(0, np.int64))


class Postings:
    """The postings of terms, cached: those of a term that was cached are extended by newer documents only.

    Removed documents stay in them, so what is read must be restricted to documents that are there.
    """

    def __init__(self, rows: DocumentColumns, lexical: Lexical, tail: set[int]) -> None:
        """`tail` are the documents that are not in the lexical index yet."""
        self._rows, self._lexical, self._tail = rows, lexical, tail
        self._cached: OrderedDict[str, tuple[int, Posting]] = OrderedDict()
        self._size = 0

    def of(self, term: str) -> Posting:
        """All documents of the index that say a term."""
        end = len(self._rows.ids)
        if term in self._cached:
            covered, posting = self._evict(term)
        else:
            # tantivy is complete only before the first document of the tail, which it does not have yet
            covered, posting = 0, NONE
            complete = min(self._tail, default=end)
            if RARE * self._lexical.frequency(term) < complete:
                documents = np.array(sorted(self._lexical.saying(term)), np.int64)
                documents = documents[documents < complete]
                counts = self._rows.terms.rows(documents).counts([term])[:, 0].astype(np.int64)
                covered, posting = complete, Posting(documents[counts > 0], counts[counts > 0])
        if covered < end:
            documents, counts = self._rows.terms.saying(term, covered)
            posting = Posting(np.append(posting.documents, documents), np.append(posting.counts, counts))
        self._cached[term] = end, posting
        self._size += A_TERM + len(posting.documents)
        while self._size > CACHED + CACHED_A_DOCUMENT * end and len(self._cached) > 1:
            self._evict(next(iter(self._cached)))
        return posting

    def _evict(self, term: str) -> tuple[int, Posting]:
        evicted = self._cached.pop(term)
        self._size -= A_TERM + len(evicted[1].documents)
        return evicted


class MatchingWords:
    """What the documents that a filter allows say."""

    def __init__(self, rows: DocumentColumns, postings: Postings, matching: BitMap) -> None:
        self._rows, self._postings, self._documents = rows, postings, ordinals(matching)
        self._saying: dict[str, Posting] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """How many of them say each term."""
        return [len(self._of(term).documents) for term in terms]

    def best(self, terms: Sequence[str], count: int, *, every: bool = False) -> list[int]:
        """The best `count` of those that say any of the terms (with `every`: all), by BM25, best first."""
        query_terms = list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]
        if not query_terms or count <= 0 or not len(self):
            return []
        lengths = self._rows.terms.lengths
        scores, said = np.zeros(len(lengths)), np.zeros(len(lengths), np.int64)
        average = max(1.0, float(lengths[self._documents].mean()))
        for term, idf in zip(query_terms, idf_of(self.frequencies(query_terms), len(self)), strict=True):
            documents, counts = self._of(term)
            scores[documents] += idf * counts / (counts + K1 * (1 - B + B * lengths[documents] / average))
            said[documents] += 1
        matches = np.flatnonzero(said >= (len(query_terms) if every else 1))
        return matches[best_first(self._rows, matches, scores[matches], count)].tolist()

    def repeating(self, question_terms: Sequence[str]) -> Documents:
        """The prompts among them that say nothing but these terms, `says_only`."""
        prompts = np.union1d(self._of(PROMPT).documents, self._of(USER_TURN).documents)
        lengths = self._rows.terms.lengths
        if not len(prompts):
            return prompts
        said = np.zeros(len(lengths), np.int64)
        for term in question_terms:
            documents, counts = self._of(term)
            said[documents] += counts
        prompts = prompts[ASKED_FROM * said[prompts] >= lengths[prompts] - BESIDE_TEXT]  # few remain to be read
        return prompts[says_only(question_terms, self._rows.terms.rows(prompts))]

    def _of(self, term: str) -> Posting:
        if term not in self._saying:
            if len(self) <= READ_DIRECTLY:
                documents, counts = self._documents, self._terms.counts([term])[:, 0].astype(np.int64)
                matching = counts > 0
            else:
                documents, counts = self._postings.of(term)
                matching = self._allowed[documents]
            self._saying[term] = Posting(documents[matching], counts[matching])
        return self._saying[term]

    @cached_property
    def _terms(self) -> TermRows:
        return self._rows.terms.rows(self._documents)

    @cached_property
    def _allowed(self) -> NDArray[np.bool_]:
        allowed = np.zeros(len(self._rows.ids), np.bool_)
        allowed[self._documents] = True
        return allowed
