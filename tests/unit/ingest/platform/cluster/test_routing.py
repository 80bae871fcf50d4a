"""What is made of the answers of several primaries."""

from ingest.platform.cluster.routing import merged_config, merged_info


def test_of_numbers_the_greatest_stands_for_all_and_of_the_rest_the_first():
    """The fullest primary is the one that refuses writes; a rewrite is under way when one node is at it."""
    merged = merged_info([
        {"used_memory": 10, "maxmemory": 100, "aof_rewrite_in_progress": 0, "valkey_version": "9.0.1", "ratio": 1.5},
        {"used_memory": 70, "maxmemory": 100, "aof_rewrite_in_progress": 1, "valkey_version": "9.0.2", "ratio": 2.5},
    ])  # fmt: skip
    assert merged == {
        "used_memory": 70, "maxmemory": 100, "aof_rewrite_in_progress": 1, "valkey_version": "9.0.1", "ratio": 1.5,
    }  # fmt: skip


def test_a_setting_that_differs_is_told_with_all_its_values():
    merged = merged_config([{"appendonly": "yes", "appendfsync": "always"}, {"appendonly": "yes", "appendfsync": "no"}])
    assert merged == {"appendonly": "yes", "appendfsync": "always|no"}


def test_nothing_is_made_of_nothing():
    assert merged_info([]) == merged_config([]) == {}
