"""A document manifest tells two sets of documents apart, and nothing else does."""

from factories import learned, observed, remembered, started
from folding import folded, one_by_one
from msgspec.structs import replace

from ingest.ids import DocumentId
from projections.documents.document import Document
from projections.documents.observations import Observation
from projections.documents.rows import Row
from projections.maintenance.manifests import NAMED, DocumentManifest, canonical, differences, manifest_of_store
from projections.store.protocol import MemoryStore

HISTORY = [started(0), observed(1), observed(2, "it passes"), remembered(3, "tea, not coffee"), learned(4)]


def manifest(store: MemoryStore, partition: int = 0) -> DocumentManifest:
    """The manifest of a log of one partition."""
    return DocumentManifest({partition: manifest_of_store(store)})


def put(store: MemoryStore, document: Document) -> None:
    """Alter a document behind the fold's back."""
    store.documents[DocumentId(document.id)] = document


def test_it_counts_documents_by_kind_and_members():
    found = manifest_of_store(one_by_one(HISTORY))
    assert found.summary.documents == {"lesson": 1, "mark": 2, "memory": 1, "observation": 2, "session": 1}
    assert found.members == sum(map(len, one_by_one(HISTORY).listings.values())) > 0


def test_the_same_documents_have_the_same_manifest_however_they_came():
    assert manifest(one_by_one(HISTORY)) == manifest(folded(HISTORY))
    assert differences(manifest(one_by_one(HISTORY)), manifest(folded(HISTORY))) == []
    assert manifest(one_by_one(HISTORY)).summary == manifest(folded(HISTORY)).summary


def test_it_does_not_depend_on_the_order_in_which_documents_are_read():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    other.documents = dict(reversed(other.documents.items()))
    other.listings = dict(reversed(other.listings.items()))
    assert manifest(store).summary == manifest(other).summary


def test_a_row_is_the_same_wherever_it_is_stored():
    row = next(one for one in one_by_one(HISTORY).documents.values() if isinstance(one, Row))
    assert canonical(row) == canonical(row.model_copy(update={"pk": "{p00}:g2:" + row.pk}))
    assert canonical(row) != canonical(row.model_copy(update={"tenant": "another"}))


def test_any_field_that_differs_is_told_by_the_id_of_its_document():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    known = next(one for one in other.documents.values() if isinstance(one, Observation))
    put(other, replace(known, title="something else"))
    (found,) = differences(manifest(store), manifest(other))
    assert (found.documents, found.first_documents) == (1, [known.id])
    assert found.listings == 0
    assert known.id in str(found)
    assert manifest(store).summary[0].documents_sha256 != manifest(other).summary[0].documents_sha256


def test_a_listing_that_lacks_a_member_is_told_by_its_name():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    listing = max(other.listings, key=lambda name: len(other.listings[name]))
    other.listings[listing].pop()
    (found,) = differences(manifest(store), manifest(other))
    assert (found.documents, found.first_listings) == (0, [listing])
    assert manifest(store).summary[0].listings_sha256 != manifest(other).summary[0].listings_sha256


def test_a_listing_without_members_is_none():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    other.listings["memories:default\0another"] = set()
    assert differences(manifest(store), manifest(other)) == []


def test_a_comparison_names_the_first_ones_and_counts_all():
    store = one_by_one([observed(n) for n in range(1, NAMED + 6)])
    (found,) = differences(manifest(store), manifest(MemoryStore()))
    assert found.first_documents == sorted(store.documents)[:NAMED]
    assert found.documents == len(store.documents) == NAMED + 6


def test_a_partition_that_one_of_them_lacks_differs():
    store = one_by_one(HISTORY)
    assert [one.partition for one in differences(manifest(store, 3), manifest(store, 4))] == [3, 4]
    assert (
        differences(
            manifest(store, 3), DocumentManifest({**manifest(store, 3).partitions, 4: manifest_of_store(MemoryStore())})
        )
        == []
    )
