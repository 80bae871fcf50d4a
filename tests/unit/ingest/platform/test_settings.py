"""Settings come from the environment; a wrong value or name stops the start and says which."""

from pathlib import Path

import pytest

from ingest.platform.processes import usable_cores
from ingest.platform.settings import VARIABLES, InvalidSetting, Settings, from_environment, to_environment

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
    values = {
        "REDIS_URL": "redis://cache:6379/0",
        "MNEMOLOG_JOBS_REDIS_URL": "redis://jobs:6379/0",
        "MNEMOLOG_DATA_DIR": "/srv/data",
        "MNEMOLOG_CACHE_DIR": "/srv/cache",
        "MNEMOLOG_HOST": "0.0.0.0",
        "MNEMOLOG_PORT": "4000",
        "MNEMOLOG_API_PROCESSES": "2",
        "MNEMOLOG_SECRET": "s3cret",
        "MNEMOLOG_TENANT": "acme",
        "MNEMOLOG_PARTITIONS": "32",
        "MNEMOLOG_WORKERS": "7",
        "MNEMOLOG_DEDUP_WINDOW": "600",
        "MNEMOLOG_DEDUP_IDS": "50000",
        "MNEMOLOG_EMBEDDER": "none",
        "MNEMOLOG_EMBEDDERS": "default,openai:http://127.0.0.1:11434/v1|nomic|768",
        "MNEMOLOG_EMBEDDING_CACHE_DAYS": "0.5",
        "MNEMOLOG_EMBEDDING_QUEUE": "5000",
        "MNEMOLOG_EMBEDDER_KEY": "sk-1",
        "MNEMOLOG_INDEX": "redis-search://engine:6379/0",
        "MNEMOLOG_SNAPSHOT_EVERY": "500",
        "MNEMOLOG_SESSION_IDLE_MINUTES": "5",
        "MNEMOLOG_RETAIN_SESSIONS": "7.5",
        "MNEMOLOG_CONDENSE_THRESHOLD": "20",
        "MNEMOLOG_CONDENSE_BATCH": "10",
        "MNEMOLOG_CONDENSE_EVERY": "30",
        "MNEMOLOG_PURGE_EVERY": "30",
        "MNEMOLOG_ARCHIVE": "s3://logs/mnemolog",
        "MNEMOLOG_ARCHIVE_AFTER": "600",
        "MNEMOLOG_BACKUP": "/srv/backups",
        "MNEMOLOG_BACKUP_EVERY": "60",
        "MNEMOLOG_BACKUP_KEEP": "2",
        "MNEMOLOG_RESTORE": "never",
        "AGENTMEMORY_DATASET_REPO": "ada/memories",
        "HF_TOKEN": "hf_1",
        "MNEMOLOG_LLM": "http://127.0.0.1:11434/v1|llama3.2",
        "MNEMOLOG_LLM_KEY": "sk-2",
        "MNEMOLOG_LLM_DAILY_TOKENS": "unlimited",
        "MNEMOLOG_DURABILITY": "replicated",
        "MNEMOLOG_REBUILD_KEEP": "120",
        "MNEMOLOG_HOSTS": "memory.example",
        "MNEMOLOG_ORIGINS": "https://ui.example",
        "MNEMOLOG_OAUTH_ISSUER": "https://issuer.example",
        "MNEMOLOG_OAUTH_RESOURCE": "http://memory.example/mcp",
        "MNEMOLOG_OAUTH_AUDIENCE": "api://memory,memory",
        "MNEMOLOG_OAUTH_JWKS": "https://issuer.example/keys?policy=x",
        "MNEMOLOG_OAUTH_SCOPES": "notes=read+write,ops=operator",
        "MNEMOLOG_OAUTH_TENANT_CLAIM": "tenant",
        "MNEMOLOG_OAUTH_PROJECTS_CLAIM": "projects",
        "MNEMOLOG_OAUTH_AGENTS_CLAIM": "sub",
        "MNEMOLOG_OAUTH_READS": "600",
        "MNEMOLOG_OAUTH_WRITES": "60",
        "MNEMOLOG_MCP_PROFILE": "memex",
        "MAX_OBS_PER_SESSION": "100",
        "MNEMOLOG_READ_WAIT": "5",
        "MNEMOLOG_MEMORY_CEILING": "2GiB",
        "MNEMOLOG_LAG_CEILING": "5000",
        "MNEMOLOG_DISK_FLOOR": "1GiB",
        "AGENT_ID": "ada",
        "AGENTMEMORY_AGENT_SCOPE": "isolated",
        "AGENTMEMORY_TOOLS": "all",
        "TOKEN_BUDGET": "1500",
        "MNEMOLOG_DROP_IN": "agentd,memex",
        "MNEMOLOG_AGENTD_PORT": "17008,7008",
        "MNEMOLOG_AGENT_MEMORY_PORT": "3378",
        "MNEMOLOG_MEMEX_PORT": "8010",
        "MNEMOLOG_MEMEX_MCP_PORT": "8011",
        "MNEMOLOG_MEMEX_MCP_HOSTS": "memex.example,gateway",
        "AGENTD_CORS_ORIGINS": "http://ui.example",
        "MNEMOLOG_AGENTD_STRICT": "on",
        "AGENT_MEMORY_SPOOL": "/srv/spool",
        "RATE_LIMIT_WRITES_PER_MINUTE": "999999",
        "RATE_LIMIT_SEARCHES_PER_MINUTE": "999999",
        "RECENCY_DECAY_DAYS": "7.0",
        "MNEMOLOG_IMPORT_FOLDERS": "/srv/transcripts,/srv/more",
        "MNEMOLOG_SPOOL": "/srv/hooks",
        "MNEMOLOG_LOG_LEVEL": "debug",
        "MNEMOLOG_LOG_FORMAT": "json",
        "MNEMOLOG_URL": "http://door:4000",
    }
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
        ("MNEMOLOG_MEMORY_CEILING", "much", "is no size"),
        ("MNEMOLOG_MEMORY_CEILING", "120%", "not between 0% and 100%"),
        ("MNEMOLOG_DISK_FLOOR", "85%", "is no size"),
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
        ("MNEMOLOG_OAUTH_ISSUER", "https://me:s3cret@issuer.example", " has a user"),
        ("MNEMOLOG_OAUTH_ISSUER", "https://issuer.example?x", " has a user, a fragment or a query"),
        ("MNEMOLOG_OAUTH_RESOURCE", "memory.example/mcp", " is not an http:// or https:// address"),
        ("MNEMOLOG_OAUTH_JWKS", "http://issuer.example/keys", " must be an https:// address"),
        ("MNEMOLOG_OAUTH_SCOPES", "read", ": 'read' is not SCOPE=ROLE"),
        ("MNEMOLOG_OAUTH_SCOPES", "x=owner", "roles are read, write, admin, metrics, operator"),
        ("MNEMOLOG_OAUTH_SCOPES", ",", " names no scope"),
        ("MNEMOLOG_OAUTH_READS", "-1", "=-1 is not between"),
    ],
)
def test_an_impossible_setting_of_access_tokens_is_told_without_secrets(name: str, value: str, message: str):
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
    assert settings.model_directory == Path("/x/cache/mnemolog/models/default")


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
    with pytest.raises(InvalidSetting, match="MNEMOLOG_JOBS_REDIS_URL: the job queue cannot be on a cluster"):
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
        ("tantivy", "redis://log", "it is none of"),
        ("redis-search://", "redis://log", "it names no server"),
        ("redis-search", "redis+cluster://a:1,b:2", "a cluster cannot be"),
        ("redis-search", None, "set REDIS_URL"),
    ],
)
def test_a_search_engine_that_there_is_not_is_refused(index: str, log: str | None, said: str):
    with pytest.raises(InvalidSetting, match=said):
        _ = from_environment({**HOME, "MNEMOLOG_INDEX": index, **({"REDIS_URL": log} if log else {})}).search_engine
