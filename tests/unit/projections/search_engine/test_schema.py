from projections.search_engine.layout import Identity
from projections.search_engine.schema import Catalogue, begun, create_arguments, dropped, switched, without

ONE = Identity(model="one", dimensions=4, vector_dimensions=4)
OTHER = Identity(model="other", dimensions=8, table="static-1", vector_dimensions=128)


def test_an_index_that_is_filled_takes_the_place_of_the_live_one_which_is_dropped_then():
    first = switched(begun(Catalogue(), ONE))
    assert (first.live and first.live.identity, first.filling, first.leaving) == (ONE, None, [])
    filling = begun(first, OTHER)
    assert filling.filled == [first.live, filling.filling]
    second = switched(filling)
    assert (second.live and second.live.identity, second.leaving) == (OTHER, [first.live and first.live.name])
    assert dropped(second, second.leaving[0]).leaving == []


def test_an_index_that_nobody_waits_for_any_more_is_dropped():
    filling = begun(Catalogue(), ONE)
    again = begun(filling, OTHER)
    assert (again.live, again.leaving) == (None, [filling.filling and filling.filling.name])


def test_no_name_is_used_twice():
    catalogue = begun(Catalogue(), ONE)
    names = {catalogue.filling and catalogue.filling.name}
    catalogue = begun(dropped(without(catalogue, "mnemolog:search:index:1"), "mnemolog:search:index:1"), ONE)
    names.add(catalogue.filling and catalogue.filling.name)
    assert len(names) == 2


def test_a_damaged_index_is_used_no_more():
    live = switched(begun(Catalogue(), ONE))
    assert live.live is not None
    lost = without(live, live.live.name)
    assert (lost.live, lost.leaving) == (None, [live.live.name])


def test_the_graph_is_of_the_static_vectors_and_an_index_without_vectors_has_none():
    words = create_arguments("n", OTHER)
    assert words[words.index("DIM") + 1] == 128
    assert "VECTOR" not in create_arguments("n", Identity(model="", dimensions=0, vector_dimensions=0))
