"""Settings come from the environment; a wrong value or name stops the start and says which. Sizes; other systems."""

from pathlib import Path

import pytest

from ingest.errors import InvalidSetting
from ingest.platform.addresses import client_key
from ingest.platform.processes import usable_cores
from ingest.platform.settings import (
    IGNORED,
    OTHER_NAMES,
    VARIABLES,
    Settings,
    from_environment,
    mib,
    parse_bytes,
    parse_bytes_or_share,
    to_environment,
    warnings,
    without_other_names,
)

HOME = {"HOME": "/home/ada"}


def test_an_empty_environment_gives_the_defaults():
    settings = from_environment(HOME)
    assert settings == Settings(
        data_dir=Path("/home/ada/.local/share/mnemolog"),
        cache_dir=Path("/home/ada/.cache/mnemolog"),
        spool=Path("/home/ada/.local/state/mnemolog/spool/3111"),
        workers=max(1, min(4, usable_cores() // 2)),
    )
    assert (settings.redis_url, settings.secret, settings.partitions, settings.port) == (None, None, 16, 3111)


def test_every_variable_is_read():
    """No variable is documented and then ignored: each of them changes the settings."""
    text = """
        REDIS_URL=redis://cache:6379/0 MNEMOLOG_JOBS_REDIS_URL=redis://jobs:6379/0 MNEMOLOG_DATA_DIR=/srv/data
        MNEMOLOG_CACHE_DIR=/srv/cache MNEMOLOG_HOST=0.0.0.0 MNEMOLOG_PORT=4000 MNEMOLOG_API_PROCESSES=2
        MNEMOLOG_SECRET=s3cret MNEMOLOG_TENANT=acme MNEMOLOG_PARTITIONS=32 MNEMOLOG_WORKERS=7 MNEMOLOG_DEDUP_WINDOW=600
        MNEMOLOG_DEDUP_IDS=50000 MNEMOLOG_EMBEDDER=none
        MNEMOLOG_EMBEDDERS=default,openai:http://127.0.0.1:11434/v1|nomic|768 MNEMOLOG_EMBEDDING_CACHE_DAYS=0.5
        MNEMOLOG_EMBEDDING_QUEUE=5000 MNEMOLOG_READ_LEDGER=10 MNEMOLOG_WEBHOOK_PRIVATE=on
        MNEMOLOG_EMBEDDER_KEY=sk-1 MNEMOLOG_INDEX=redis-search://engine:6379/0
        MNEMOLOG_SNAPSHOT_EVERY=500 MNEMOLOG_SESSION_IDLE_MINUTES=5 MNEMOLOG_RETAIN_SESSIONS=7.5
        MNEMOLOG_CONDENSE_THRESHOLD=20 MNEMOLOG_CONDENSE_BATCH=10 MNEMOLOG_CONDENSE_EVERY=30 MNEMOLOG_PURGE_EVERY=30
        MNEMOLOG_ARCHIVE=s3://logs/mnemolog MNEMOLOG_ARCHIVE_AFTER=600 MNEMOLOG_BACKUP=/srv/backups
        MNEMOLOG_BACKUP_EVERY=60 MNEMOLOG_BACKUP_KEEP=2 MNEMOLOG_RESTORE=never AGENTMEMORY_DATASET_REPO=ada/memories
        HF_TOKEN=hf_1 MNEMOLOG_LLM=http://127.0.0.1:11434/v1|llama3.2 MNEMOLOG_LLM_KEY=sk-2
        MNEMOLOG_LLM_DAILY_TOKENS=unlimited MNEMOLOG_DURABILITY=replicated MNEMOLOG_REBUILD_KEEP=120
        MNEMOLOG_CONNECTIONS=9 MNEMOLOG_HEAD_SECONDS=8 MNEMOLOG_BODY_SECONDS=7
        MNEMOLOG_HOSTS=memory.example MNEMOLOG_ALLOWED_ORIGINS=https://ui.example MNEMOLOG_OAUTH_ISSUER=https://issuer.example
        MNEMOLOG_OAUTH_RESOURCE=http://memory.example/mcp MNEMOLOG_OAUTH_AUDIENCE=api://memory,memory
        MNEMOLOG_OAUTH_JWKS=https://issuer.example/keys?policy=x MNEMOLOG_OAUTH_SCOPES=notes=read+write,ops=operator
        MNEMOLOG_OAUTH_TENANT_CLAIM=tenant MNEMOLOG_OAUTH_PROJECTS_CLAIM=projects MNEMOLOG_OAUTH_AGENTS_CLAIM=sub
        MNEMOLOG_OAUTH_READS=600 MNEMOLOG_OAUTH_WRITES=60 MNEMOLOG_MCP_PROFILE=memex MAX_OBS_PER_SESSION=100
        MNEMOLOG_READ_WAIT=5 MNEMOLOG_MEMORY_CEILING=2GiB MNEMOLOG_LAG_CEILING=5000 MNEMOLOG_DISK_FLOOR=1GiB
        AGENT_ID=ada AGENTMEMORY_AGENT_SCOPE=isolated TOKEN_BUDGET=1500
        MNEMOLOG_DROP_IN=agentd,memex MNEMOLOG_AGENTD_PORT=17008,7008 MNEMOLOG_AGENT_MEMORY_PORT=3378
        MNEMOLOG_MEMEX_PORT=8010 MNEMOLOG_MEMEX_MCP_PORT=8011 MNEMOLOG_MEMEX_MCP_HOSTS=memex.example,gateway
        MNEMOLOG_AGENTD_STRICT=on AGENT_MEMORY_SPOOL=/srv/spool
        RATE_LIMIT_WRITES_PER_MINUTE=999999 RATE_LIMIT_SEARCHES_PER_MINUTE=999999 RECENCY_DECAY_DAYS=7.0
        MNEMOLOG_IMPORT_FOLDERS=/srv/transcripts,/srv/more MNEMOLOG_SPOOL=/srv/hooks MNEMOLOG_LOG_LEVEL=debug
        MNEMOLOG_LOG_FORMAT=json MNEMOLOG_URL=http://door:4000
    """
    values = {name: value for name, _, value in (pair.partition("=") for pair in text.split())}
    assert values.keys() == VARIABLES.keys()
    defaults = from_environment(HOME)
    for name, value in values.items():
        assert from_environment({**HOME, name: value}) != defaults, name
    assert to_environment(from_environment(values)) == values


def test_a_child_process_reads_the_same_settings():
    settings = from_environment({**HOME, "MNEMOLOG_PORT": "4000", "MNEMOLOG_SECRET": "s3cret"})
    assert from_environment(to_environment(settings)) == settings


def test_unset_variables_are_not_passed_to_a_child_process():
    assert {"REDIS_URL", "MNEMOLOG_SECRET"}.isdisjoint(to_environment(from_environment(HOME)))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MNEMOLOG_PORT", "eighty", "not a whole number"),
        ("MNEMOLOG_PORT", "0", "not between 1 and 65535"),
        ("MNEMOLOG_PORT", "65536", "not between 1 and 65535"),
        ("MNEMOLOG_PARTITIONS", "0", "not between 1 and 1024"),
        ("MNEMOLOG_PARTITIONS", "1025", "not between 1 and 1024"),
        ("MNEMOLOG_PARTITIONS", "1.5", "not a whole number"),
        ("MNEMOLOG_SNAPSHOT_EVERY", "-1", "not between"),
        ("MNEMOLOG_MEMORY_CEILING", "much", "is not a size"),
        ("MNEMOLOG_MEMORY_CEILING", "120%", "not between 0% and 100%"),
        ("MNEMOLOG_DISK_FLOOR", "85%", "is not a size"),
        ("MNEMOLOG_RETAIN_SESSIONS", "0", "not between 0 and 36500"),
        ("MNEMOLOG_RETAIN_SESSIONS", "a week", "not a number"),
        ("MNEMOLOG_DEDUP_WINDOW", "0.5", "not a whole number"),
        ("MNEMOLOG_LOG_LEVEL", "loud", "not one of debug, info, warning, error"),
        ("MNEMOLOG_LOG_FORMAT", "xml", "not one of text, json"),
    ],
)
def test_an_impossible_value_is_named_with_its_variable(name: str, value: str, message: str):
    with pytest.raises(InvalidSetting, match=f"{name}=.*{message}"):
        from_environment({name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MNEMOLOG_OAUTH_ISSUER", "http://issuer.example", " must be an https:// address"),
        ("MNEMOLOG_OAUTH_ISSUER", "https://me:s3cret@issuer.example", " contains a user"),
        ("MNEMOLOG_OAUTH_ISSUER", "https://issuer.example?x", " contains a user, a fragment or a query"),
        ("MNEMOLOG_OAUTH_RESOURCE", "memory.example/mcp", " is not an http:// or https:// address"),
        ("MNEMOLOG_OAUTH_JWKS", "http://issuer.example/keys", " must be an https:// address"),
        ("MNEMOLOG_OAUTH_SCOPES", "read", ": 'read' is not SCOPE=ROLE"),
        ("MNEMOLOG_OAUTH_SCOPES", "x=owner", "roles are read, write, admin, metrics, operator"),
        ("MNEMOLOG_OAUTH_SCOPES", ",", " names no scope"),
        ("MNEMOLOG_OAUTH_READS", "-1", "=-1 is not between"),
        ("MNEMOLOG_ALLOWED_ORIGINS", "http://ui.example,*", ": '\\*' is not the origin of a page"),
        ("MNEMOLOG_ALLOWED_ORIGINS", "null", ": 'null' is not the origin of a page"),
        ("MNEMOLOG_ALLOWED_ORIGINS", "https://*.example", "is not the origin of a page"),
        ("AGENTD_CORS_ORIGINS", "http://ui.example/page", "is not the origin of a page"),
    ],
)
def test_an_impossible_setting_of_access_is_refused_without_showing_secrets(name: str, value: str, message: str):
    with pytest.raises(InvalidSetting, match=f"^{name}.*{message}") as raised:
        from_environment({name: value})
    assert "s3cret" not in str(raised.value)


def test_a_misspelt_variable_is_refused_with_the_ones_there_are():
    with pytest.raises(
        InvalidSetting, match=r"MNEMOLOG_PARTITION is not a setting; did you mean MNEMOLOG_PARTITIONS\?"
    ):
        from_environment({"MNEMOLOG_PARTITION": "8"})


def test_variables_of_the_hooks_are_accepted():
    assert from_environment({**HOME, "MNEMOLOG_PROJECT": "shop", "MNEMOLOG_HOOK_CONTEXT": "0"}) == from_environment(
        HOME
    )


def test_servers_on_two_ports_have_two_spools():
    folders = {from_environment({**HOME, "MNEMOLOG_PORT": port}).spool for port in ("4000", "4001")}
    assert len(folders) == 2
    assert from_environment({"XDG_STATE_HOME": "/x/state"}).spool == Path("/x/state/mnemolog/spool/3111")


def test_variables_of_other_programs_are_ignored():
    assert from_environment({**HOME, "PATH": "/bin", "AGENT_MNEMOLOG": "x"}) == from_environment(HOME)


def test_an_empty_value_means_unset():
    for name in VARIABLES.keys() - {"REDIS_URL"}:
        assert from_environment({**HOME, name: ""}) == from_environment(HOME), name


def test_the_xdg_folders_are_honoured():
    settings = from_environment({"XDG_DATA_HOME": "/x/data", "XDG_CACHE_HOME": "/x/cache"})
    assert (settings.data_dir, settings.cache_dir) == (Path("/x/data/mnemolog"), Path("/x/cache/mnemolog"))
    assert settings.snapshots == Path("/x/data/mnemolog/snapshots")


def test_a_log_level_may_be_upper_case():
    assert from_environment({"MNEMOLOG_LOG_LEVEL": "DEBUG"}).log_level == "debug"


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ({}, ""),
        ({"AGENTMEMORY_DATASET_REPO": "ada/memories"}, "hf://datasets/ada/memories"),
        ({"AGENTMEMORY_DATASET_REPO": "ada/memories", "MNEMOLOG_BACKUP": "/srv/backups"}, "/srv/backups"),
    ],
)
def test_backups_go_where_our_own_setting_says_or_to_the_dataset_repository(values: dict[str, str], target: str):
    assert from_environment({**HOME, **values}).backup_target == target


def test_the_url_follows_the_port():
    assert from_environment({"MNEMOLOG_PORT": "4000"}).url == "http://127.0.0.1:4000"


def test_the_job_queue_is_on_the_logs_server_unless_another_is_named():
    assert from_environment(HOME).jobs_url == ""
    assert from_environment({**HOME, "REDIS_URL": "redis://log:6379"}).jobs_url == "redis://log:6379"
    named = {"REDIS_URL": "redis+cluster://a:7000,b:7000", "MNEMOLOG_JOBS_REDIS_URL": "redis://jobs:6379"}
    assert from_environment({**HOME, **named}).jobs_url == "redis://jobs:6379"


@pytest.mark.parametrize(
    "values",
    [
        {"REDIS_URL": "redis+cluster://a:7000"},
        {"REDIS_URL": "redis://log:6379", "MNEMOLOG_JOBS_REDIS_URL": "rediss+cluster://a:7000"},
    ],
)
def test_a_job_queue_on_a_cluster_is_refused(values: dict[str, str]):
    with pytest.raises(InvalidSetting, match="MNEMOLOG_JOBS_REDIS_URL: the job queue cannot run on a cluster"):
        _ = from_environment({**HOME, **values}).jobs_url


def test_the_search_engine_is_the_logs_own_server_or_another():
    log = {**HOME, "REDIS_URL": "redis://log:6379/1"}
    assert from_environment(log).search_engine is None
    assert from_environment({**log, "MNEMOLOG_INDEX": "embedded"}).search_engine is None
    assert from_environment({**log, "MNEMOLOG_INDEX": "redis-search"}).search_engine == "redis://log:6379/1"
    other = from_environment({**log, "MNEMOLOG_INDEX": "rediss-search://user:word@engine:6380/2"})
    assert other.search_engine == "rediss://user:word@engine:6380/2"


@pytest.mark.parametrize(
    ("index", "log", "said"),
    [
        ("tantivy", "redis://log", "it is not one of"),
        ("redis-search://", "redis://log", "it names no server"),
        ("redis-search", "redis+cluster://a:1,b:2", "a cluster is not supported"),
        ("redis-search", None, "uses REDIS_URL"),
    ],
)
def test_a_search_engine_that_there_is_not_is_refused(index: str, log: str | None, said: str):
    with pytest.raises(InvalidSetting, match=said):
        _ = from_environment({**HOME, "MNEMOLOG_INDEX": index, **({"REDIS_URL": log} if log else {})}).search_engine


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1024", 1024), ("512MiB", 512 << 20), (" 2 GB ", 2 * 10**9), ("1.5g", 3 << 29), ("1tib", 1 << 40)],
)
def test_a_size_is_bytes_or_a_number_and_a_unit(text: str, size: int):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "5 apples", "-1", "1,000", "85%"])
def test_what_is_no_size_is_told_what_to_write(text: str):
    with pytest.raises(ValueError, match="512MiB"):
        parse_bytes(text)


def test_a_share_is_told_from_a_size():
    assert parse_bytes_or_share("85%") == 0.85
    assert parse_bytes_or_share("100 %") == 1.0
    assert parse_bytes_or_share("85") == 85


@pytest.mark.parametrize("text", ["0%", "101%"])
def test_a_share_is_more_than_nothing_and_at_most_all(text: str):
    with pytest.raises(ValueError, match="between 0% and 100%"):
        parse_bytes_or_share(text)


def test_sizes_are_told_in_whole_mebibytes():
    assert mib(1500 << 20) == "1,500 MiB"


SUMMARIZATION_ENABLED = "SUMMARIZATION_ENABLED"
HOME_OTHER_SYSTEMS = {"HOME": "/nowhere"}
PAGE = Path(__file__).parents[4] / "docs/dropin.md"


def test_the_secret_and_the_port_of_agentmemory_are_those_of_the_server():
    settings = from_environment({**HOME_OTHER_SYSTEMS, "AGENTMEMORY_SECRET": "hush", "III_REST_PORT": "4111"})
    assert (settings.secret, settings.port, settings.url) == ("hush", 4111, "http://127.0.0.1:4111")
    assert settings.spool is not None
    assert settings.spool.name == "4111"


def test_the_variables_of_agentd_and_memex_are_obeyed():
    settings = from_environment(
        {
            **HOME_OTHER_SYSTEMS,
            "AGENTD_PORT": "7008",
            "AGENTD_LOG_FORMAT": "json",
            "SUMMARIZATION_THRESHOLD": "7",
            "SUMMARIZATION_BATCH_SIZE": "3",
            "SUMMARIZATION_INTERVAL_SECONDS": "9",
        }
    )
    assert (settings.agentd_ports, settings.log_format) == ((7008,), "json")
    assert (settings.condense_threshold, settings.condense_batch, settings.condense_every) == (7, 3, 9)


@pytest.mark.parametrize("off", ["false", "False", "0", "off", "no"])
def test_a_switched_off_summarizer_condenses_nothing(off: str):
    environ = {**HOME_OTHER_SYSTEMS, SUMMARIZATION_ENABLED: off, "SUMMARIZATION_THRESHOLD": "7"}
    assert from_environment(environ).condense_threshold == 0
    assert from_environment({**environ, SUMMARIZATION_ENABLED: "true"}).condense_threshold == 7


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_an_empty_value_of_another_system_means_unset(name: str):
    assert from_environment({**HOME_OTHER_SYSTEMS, name: ""}) == from_environment(HOME_OTHER_SYSTEMS)


def test_our_own_variable_wins_and_a_contradiction_stops_the_start():
    environ = {**HOME_OTHER_SYSTEMS, "MNEMOLOG_SECRET": "ours", "AGENTMEMORY_SECRET": "theirs"}
    assert from_environment(environ).secret == "ours"
    with pytest.raises(InvalidSetting, match="AGENTMEMORY_SECRET and MNEMOLOG_SECRET are both set") as raised:
        list(warnings(environ, ()))
    assert "theirs" not in str(raised.value)
    assert list(warnings({**environ, "AGENTMEMORY_SECRET": "ours"}, ())) == []


def test_a_bad_value_is_named_with_the_variable_that_holds_it():
    with pytest.raises(InvalidSetting, match="III_REST_PORT='many' is not a whole number"):
        from_environment({**HOME_OTHER_SYSTEMS, "III_REST_PORT": "many"})


def test_ignored_variables_are_named_where_their_system_is_served():
    environ = {
        **HOME_OTHER_SYSTEMS,
        "GEMINI_API_KEY": "key",
        "DATABASE_URL": "x",
        "DB_MAX_POOL_SIZE": "3",
        "BM25_WEIGHT": "",
    }
    (told,) = warnings(environ, ())
    assert told.startswith("GEMINI_API_KEY of agentmemory: no effect here")
    assert "=key" not in told
    assert len(list(warnings(environ, ("memex",)))) == 2


def test_a_child_process_gets_each_setting_under_one_name():
    environ = {
        **HOME_OTHER_SYSTEMS,
        SUMMARIZATION_ENABLED: "no",
        "SUMMARIZATION_THRESHOLD": "7",
        "AGENTMEMORY_SECRET": "hush",
    }
    settings = from_environment(environ)
    child = {**without_other_names(environ), **to_environment(settings)}
    assert from_environment(child) == settings
    assert list(warnings(child, ("memex",))) == []


def test_commands_send_the_servers_secret_to_this_machine_alone():
    environ = {**HOME_OTHER_SYSTEMS, "AGENTMEMORY_SECRET": "hush"}
    assert client_key("http://127.0.0.1:3111", environ) == "hush"
    assert client_key("http://memory.example", environ) is None


def test_the_page_lists_every_variable():
    names = {*OTHER_NAMES, *" ".join(IGNORED.values()).split()}
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
