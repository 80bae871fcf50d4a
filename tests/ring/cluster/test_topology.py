"""Which nodes of a cluster are down, as its other nodes know it."""

import pytest

from ingest.platform.cluster.topology import down_nodes

NODES = """\
a1 10.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460
a2 10.0.0.2:7002@17002 {second} - 0 0 2 connected 5461-10922
a3 10.0.0.3:7003@17003 master - 0 0 3 connected 10923-16383
b1 10.0.0.4:7004@17004 slave a1 0 0 1 connected
b2 10.0.0.5:7005@17005 slave{fifth} a2 0 0 2 connected
b3 10.0.0.6:7006@17006,host.example slave{sixth} a3 0 0 3 connected
"""


@pytest.mark.parametrize(
    ("second", "fifth", "sixth", "expected"),
    [
        ("master", "", "", ""),
        ("master", ",fail?", "", ""),
        (
            "master", ",fail", ",fail",
            "2 of 6 cluster nodes are down (10.0.0.5:7005, 10.0.0.6:7006); 2 primaries have no replica",
        ),
        ("master,fail", "", "", "1 of 6 cluster nodes are down (10.0.0.2:7002); 0 primaries have no replica"),
    ],
)  # fmt: skip
def test_nodes_that_are_down_are_named_with_the_primaries_that_have_no_replica(
    second: str, fifth: str, sixth: str, expected: str
):
    assert down_nodes(NODES.format(second=second, fifth=fifth, sixth=sixth)) == expected
