from api.dialects.session_projects import SessionProjects


def test_a_session_keeps_its_first_home():
    homes = SessionProjects()
    assert homes.settle("s", "shop", "").project == "shop"
    assert homes.settle("s", "other", "").project == "shop"
    assert homes.get("t") is None


def test_the_first_agent_that_is_named_is_the_sessions():
    homes = SessionProjects()
    homes.settle("s", "shop", "")
    assert homes.settle("s", "", "ada").agent == "ada"
    assert homes.settle("s", "", "bob").agent == "ada"


def test_what_was_written_is_covered_in_any_order():
    homes = SessionProjects()
    homes.settle("s", "shop", "")
    for position in ("3:20-0", "3:10-0"):
        homes.wrote("s", position)
    homes.wrote("unknown", "3:30-0")
    home = homes.settle("s", "", "ada")
    assert str(home.written) == "3:20-0"


def test_the_session_that_was_asked_about_longest_ago_is_let_go_first():
    homes = SessionProjects(limit=2)
    homes.settle("a", "p", "")
    homes.settle("b", "p", "")
    homes.get("a")
    homes.settle("c", "p", "")
    assert len(homes) == 2
    assert homes.get("b") is None


def test_a_session_that_was_forgotten_may_begin_elsewhere():
    homes = SessionProjects()
    homes.settle("s", "shop", "")
    homes.forget("s")
    assert homes.settle("s", "other", "").project == "other"
