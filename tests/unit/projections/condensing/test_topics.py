"""What texts are about, by names that a person would use."""

import pytest
from condensing import called, saw

from projections.nouns.observation import Observation
from projections.queries.profile import about, is_topic, mentions, names_of, topics_of, written


def content(observation: Observation) -> list[str]:
    return [observation.content]


@pytest.mark.parametrize(
    "topic",
    ["redis", "float pixel data", "new york", "rate-limit", "python3", "python 3.12", "utf-8", "数据库", "größe"],
)
def test_words_are_a_topic(topic: str):
    assert is_topic(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "", "c", "12.5",
        "fact", "crystal", "consolidated", "procedure",  # tags of the server
        "bash", "edit", "search_replace", "webfetch", "mcp__shop__list",  # tools
        "a/b", "pool.py", "src\\pool", "os.path", "main()", "x = 1", "std::move",
        "created_at", "next_cypher", "_hash", "tool_input", "rerun-if-changed",
        "-x", "--no-header", "pytest -q",
        "m20izo", "3rk2t9", "hat130", "anya_garcia_5901",
        "todo the", "one-way", "a topic of more words than one names things by", "x" * 61,
    ],
)  # fmt: skip
def test_tags_of_the_server_tools_keys_paths_flags_ids_and_code_are_no_topics(topic: str):
    assert not is_topic(topic)


def test_names_of_tools_and_keys_are_no_topics():
    seen = [called(0, "lookup", {"flavour": "x"}, output='{"exitCode": 1}'), saw(1, '{"stderr_lines": ["a"]}')]
    names = names_of(seen)
    assert names >= {"lookup", "flavour", "exitcode", "stderr_lines"}
    assert not any(is_topic(name, names) for name in ("lookup", "flavour", "exitcode", "stderr_lines"))
    assert is_topic("redis", names)


def test_identifiers_in_camel_case_are_no_topics_unless_a_product_is_written_so():
    assert topics_of(["RetryableError", "GraphQL", "exceptions.py", "Feature Flags"]) == {"graphql", "feature flags"}
    said = ["The PixelRepresentation is optional.", "A DataLoader batches what GraphQL asks for.", "Use redis."]
    seen = [saw(n, text, concepts=("pixelrepresentation", "graphql", "redis")) for n, text in enumerate(said)]
    assert about(seen, content) == {"graphql": {1: [said[1]]}, "redis": {2: [said[2]]}}


@pytest.mark.parametrize("shouted", ["SELECT FOR UPDATE", "MZDDS4"])
def test_clauses_of_sql_and_ids_are_no_topics(shouted: str):
    assert about([saw(0, f"We take {shouted} here.", concepts=(shouted.lower(),))], content) == {}


def test_a_topic_is_mentioned_as_words_of_their_own():
    assert mentions("The Redis-host is gone.", "redis")
    assert mentions("The `redis` host is gone.", "redis")
    assert not mentions("The redistribution is gone.", "redis")
    assert not mentions("Then run `make release` twice.", "make release")


def test_a_topic_is_written_as_most_write_it():
    assert written("new york", ["From New York.", "new york", "To New York."]) == "New York"
