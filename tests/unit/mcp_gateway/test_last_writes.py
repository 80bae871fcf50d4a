import pytest

from ingest.errors import CommandRejected
from mcp_gateway.tools.tool import LastWrites


def test_an_agent_that_never_wrote_waits_for_nothing():
    assert LastWrites().after("ada") == ""


def test_an_agent_waits_for_all_its_writes_in_all_partitions():
    """One position a partition, the newest, whatever the order of the acknowledgements."""
    writes = LastWrites()
    for position in ("3:10-0", "1:7-2", "3:9-5", "3:10-1"):
        writes.wrote("ada", position)
    assert writes.after("ada") == "1:7-2,3:10-1"


def test_agents_wait_only_for_themselves():
    writes = LastWrites()
    writes.wrote("ada", "1:7-2")
    writes.wrote("", "2:9-0")
    assert (writes.after("ada"), writes.after(""), writes.after("bob")) == ("1:7-2", "2:9-0", "")


def test_a_read_may_wait_for_the_writes_of_several():
    writes = LastWrites()
    for agent, position in (("ada", "1:7-2"), ("", "2:9-0"), ("", "1:8-0")):
        writes.wrote(agent, position)
    assert writes.after("ada", "", "bob") == "1:8-0,2:9-0"
    assert writes.after("ada") == "1:7-2"


def test_the_agent_that_wrote_longest_ago_is_forgotten_first():
    writes = LastWrites(limit=2)
    for agent in ("ada", "bob", "ada", "cleo"):
        writes.wrote(agent, "1:7-2")
    assert (len(writes), writes.after("bob")) == (2, "")
    assert writes.after("ada") == writes.after("cleo") == "1:7-2"


def test_what_is_no_position_is_refused_and_leaves_no_trace():
    writes = LastWrites()
    with pytest.raises(CommandRejected):
        writes.wrote("ada", "soon")
    assert writes.after("ada") == ""
