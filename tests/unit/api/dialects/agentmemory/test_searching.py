from api.dialects.agentmemory.searching import MAX_SEARCHERS, Followups


def test_a_search_is_followed_up_by_the_next_of_the_same_session():
    counted = Followups()
    for session in ("a", "b", "a"):
        counted.searched(session)
    assert (counted.searches, counted.followed) == (3, 1)


def test_only_so_many_searchers_are_remembered():
    counted = Followups()
    for number in range(MAX_SEARCHERS + 1):
        counted.searched(f"s{number}")
    counted.searched("s0")
    assert counted.followed == 0
