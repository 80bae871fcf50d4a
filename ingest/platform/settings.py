"""Settings, read once from the environment by a composition root and handed down."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ingest.durability import Durability, parse_durability
from ingest.errors import CommandRejected, InvalidSetting
from ingest.platform.redis_url import FORMS, is_cluster, is_redis_url
from ingest.platform.sizes import parse_bytes, parse_bytes_or_share

VARIABLES: dict[str, str] = {
    "REDIS_URL": "Redis >= 7 or Valkey >= 8 to use, one server or a cluster; unset: an embedded Valkey is started",
    "MNEMOLOG_JOBS_REDIS_URL": "one server for the job queue; default REDIS_URL, needed when that is a cluster",
    "MNEMOLOG_DATA_DIR": "where the embedded Valkey and index snapshots live; default XDG_DATA_HOME/mnemolog",
    "MNEMOLOG_CACHE_DIR": "where the exported embedding model lives; default XDG_CACHE_HOME/mnemolog",
    "MNEMOLOG_HOST": "address to listen on; default 127.0.0.1",
    "MNEMOLOG_PORT": "main port; default 3111",
    "MNEMOLOG_SECRET": "bearer secret of the operator, beside API keys; with neither, open to this machine only",
    "MNEMOLOG_HOSTS": "names that the server goes by besides those of the loopback, by comma; `*`: any",
    "MNEMOLOG_ORIGINS": "origins whose pages may call every door, besides the server's own, by comma; `*`: any",
    "MNEMOLOG_TENANT": "tenant of this server's callers; default `default`",
    "MNEMOLOG_PARTITIONS": "partitions of a new log, fixed at creation; default 16",
    "MNEMOLOG_DEDUP_WINDOW": "seconds for which a partition remembers event ids; default 3600",
    "MNEMOLOG_DEDUP_IDS": "event ids a partition remembers at most; default 250000",
    "MNEMOLOG_DURABILITY": "what a write that does not say it waits for: memory, fsync, replicated; default: nothing",
    "MNEMOLOG_EMBEDDER": "default, none, onnx:DIRECTORY, sentence-transformers:NAME or openai:URL|MODEL|DIMENSIONS",
    "MNEMOLOG_EMBEDDERS": "embedders that a rebuild may change to besides MNEMOLOG_EMBEDDER, by comma; default none",
    "MNEMOLOG_EMBEDDING_CACHE_DAYS": "days (fractions too) a text's vector is kept for when it comes again; default 30",
    "MNEMOLOG_EMBEDDER_KEY": "API key for the openai: embedders that the two settings name",
    "MNEMOLOG_SNAPSHOT_EVERY": "entries of the change feed after which a new index snapshot is written; default 5000",
    "MNEMOLOG_SESSION_IDLE_MINUTES": "silence after which a session that nobody ended is ended; default 30",
    "MNEMOLOG_RETAIN_SESSIONS": "days (fractions too) a silent session's observations stay searchable; unset: for ever",
    "MNEMOLOG_CONDENSE_THRESHOLD": "episodic memories of an agent and user that are left alone; default 100, 0: all",
    "MNEMOLOG_CONDENSE_BATCH": "how many of the oldest are condensed into one at a time; default 50",
    "MNEMOLOG_CONDENSE_EVERY": "seconds between two looks for too many episodic memories; default 300",
    "MNEMOLOG_PURGE_EVERY": "seconds within which index files are rid of what was forgotten; default 60",
    "MNEMOLOG_ARCHIVE": "where old log entries go: a directory, or a URL of fsspec; unset: the log stays in Redis",
    "MNEMOLOG_ARCHIVE_AFTER": "seconds after which a log entry may go there; default 3600",
    "MNEMOLOG_REBUILD_KEEP": "seconds for which a rebuild can be rolled back; default 3600",
    "MNEMOLOG_BACKUP": "where backups go: a directory, or hf://datasets/OWNER/REPO; unset: none are made",
    "MNEMOLOG_BACKUP_EVERY": "seconds between two backups of a log that changes; default 3600",
    "MNEMOLOG_BACKUP_KEEP": "backups of the log that are kept; default 7",
    "MNEMOLOG_RESTORE": "auto: `mnemolog up` restores the newest backup into an empty log; or never; default auto",
    "AGENTMEMORY_DATASET_REPO": "OWNER/REPO: the same as MNEMOLOG_BACKUP=hf://datasets/OWNER/REPO",
    "HF_TOKEN": "token for backups to a Hugging Face Hub",
    "MNEMOLOG_LLM": "an OpenAI-compatible chat endpoint, URL|MODEL, for compression and summaries; unset: rules only",
    "MNEMOLOG_LLM_KEY": "API key for MNEMOLOG_LLM",
    "MNEMOLOG_LLM_DAILY_TOKENS": "tokens a tenant may use a day (UTC), or `unlimited`; default 1000000",
    "MNEMOLOG_MCP_PROFILE": "MCP tools: native, agentmemory, memex, agent-memory, or several by comma; default native",
    "MAX_OBS_PER_SESSION": "observations a session may have; default 0, any number",
    "MNEMOLOG_READ_WAIT": "seconds a read waits for the write that it names, before it gets 503; default 1",
    "MNEMOLOG_MEMORY_CEILING": "memory of the log's server above which writes get 429: a share or a size; default 85%",
    "MNEMOLOG_LAG_CEILING": "events not projected yet above which writes get 429; default 1000000, 0: any number",
    "MNEMOLOG_DISK_FLOOR": "free disk below which writes get 429; default 256MiB for the embedded server, else 0: off",
    "AGENT_ID": "the agent that reads and writes when a request names none",
    "AGENTMEMORY_AGENT_SCOPE": "shared, or isolated: an agent sees only what it wrote itself; default shared",
    "TOKEN_BUDGET": "tokens of a context when a request of agentmemory's names none; default 2000",
    "MNEMOLOG_DROP_IN": "doors that also listen: agentd, agent-memory, memex, several by comma, or all; default none",
    "MNEMOLOG_AGENTD_PORT": "ports of the agentd-memory door, by comma; default 17008",
    "MNEMOLOG_AGENT_MEMORY_PORT": "ports of the agent-memory door; default 3377",
    "MNEMOLOG_MEMEX_PORT": "ports of the memex door; default 8000",
    "MNEMOLOG_MEMEX_MCP_PORT": "ports of memex's MCP door; default 8001",
    "MNEMOLOG_MEMEX_MCP_HOSTS": "names that memex's MCP door goes by besides localhost, by comma; `*`: any",
    "AGENTD_CORS_ORIGINS": "origins whose pages may call the agentd-memory door, by comma; default `*`",
    "MNEMOLOG_AGENTD_STRICT": "on: that door shows and deletes only what `as_actor` may read; default off",
    "AGENT_MEMORY_SPOOL": "where agent-memory's hooks leave what they could not send; default TMP/agent-memory-spool",
    "RATE_LIMIT_WRITES_PER_MINUTE": "creates of an agent a minute at the memex door; default 60",
    "RATE_LIMIT_SEARCHES_PER_MINUTE": "searches of an agent a minute at the memex door; default 120",
    "RECENCY_DECAY_DAYS": "half-life of recency at the memex doors, in days; default 30",
    "MNEMOLOG_IMPORT_FOLDERS": "folders that `replay/import-jsonl` may read, by comma; default ~/.claude/projects",
    "MNEMOLOG_SPOOL": "where hooks leave what they could not send; default XDG_STATE_HOME/mnemolog/spool/PORT",
    "MNEMOLOG_LOG_LEVEL": "debug, info, warning or error; default info",
    "MNEMOLOG_URL": "server that the command line and the stdio bridge talk to; default http://127.0.0.1:3111",
}
"""Every variable with its meaning; the documentation and compose.yaml are checked against it."""

HOOK_VARIABLES: dict[str, str] = {
    "MNEMOLOG_PROJECT": "project of what the hooks send; default the name of the git top level, else of the folder",
    "MNEMOLOG_HOOK_CONTEXT": "0: the hooks tell an agent nothing when a session starts",
    "MNEMOLOG_HOOK_LESSONS": "0: the hooks tell an agent no lessons before a tool is used",
}
"""What only `api/agents/recording.py` reads. Servers and commands pass over them."""


DROP_INS = ("agentd", "agent-memory", "memex")
"""The systems whose clients call ports of their own."""


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be configured."""

    redis_url: str | None = None
    jobs_redis_url: str | None = None
    data_dir: Path
    cache_dir: Path
    host: str = "127.0.0.1"
    port: int = 3111
    secret: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    tenant: str = "default"
    partitions: int = 16
    dedup_window: int = 3600
    dedup_ids: int = 250_000
    durability: Durability | None = None
    embedder: str = "default"
    embedders: tuple[str, ...] = ()
    embedder_key: str | None = None
    embedding_cache_days: float = 30.0
    snapshot_every: int = 5_000
    session_idle_minutes: int = 30
    retain_sessions_days: float | None = None
    condense_threshold: int = 100
    condense_batch: int = 50
    condense_every: int = 300
    purge_every: int = 60
    archive: str = ""
    archive_after: int = 3600
    rebuild_keep: int = 3600
    backup: str = ""
    backup_every: int = 3600
    backup_keep: int = 7
    restore: Literal["auto", "never"] = "auto"
    dataset_repo: str = ""
    hf_token: str | None = None
    llm: str = ""
    llm_key: str | None = None
    llm_daily_tokens: str = ""
    mcp_profile: str = "native"
    observations_per_session: int = 0
    read_wait: int = 1
    memory_ceiling: str = "85%"
    lag_ceiling: int = 1_000_000
    disk_floor: str = ""
    agent_id: str = ""
    agent_scope: Literal["shared", "isolated"] = "shared"
    token_budget: int = 2_000
    drop_in: tuple[str, ...] = ()
    agentd_ports: tuple[int, ...] = (17008,)
    agent_memory_ports: tuple[int, ...] = (3377,)
    memex_ports: tuple[int, ...] = (8000,)
    memex_mcp_ports: tuple[int, ...] = (8001,)
    memex_mcp_hosts: tuple[str, ...] = ()
    agentd_origins: str = "*"
    agentd_strict: bool = False
    agent_memory_spool: Path = Path(tempfile.gettempdir()) / "agent-memory-spool"
    memex_writes_per_minute: int = 60
    memex_searches_per_minute: int = 120
    memex_half_life_days: float = 30.0
    import_folders: tuple[Path, ...] = (Path("~/.claude/projects"),)
    spool: Path | None = None
    log_level: str = "info"
    url: str = "http://127.0.0.1:3111"

    @property
    def jobs_url(self) -> str:
        """The server of the job queue; raises InvalidSetting when none is named that can be it (arq needs one server).

        Empty when no server is named at all.
        """
        url = self.jobs_redis_url or self.redis_url or ""
        if is_cluster(url):
            raise InvalidSetting(
                "MNEMOLOG_JOBS_REDIS_URL: the job queue cannot be on a cluster; name one Redis or Valkey server for it"
            )
        return url

    @property
    def named_embedders(self) -> frozenset[str]:
        """The embedders that may be used because the settings name them, literally as they are written there."""
        return frozenset({self.embedder, *self.embedders})

    @property
    def model_directory(self) -> Path:
        """Folder of the exported default embedding model."""
        return self.cache_dir / "models" / "default"

    @property
    def backup_target(self) -> str:
        """Where backups go; empty for nowhere."""
        return self.backup or (f"hf://datasets/{self.dataset_repo}" if self.dataset_repo else "")

    @property
    def snapshots(self) -> Path:
        """Folder of index snapshots; the worker writes there and every API process reads there."""
        return self.data_dir / "snapshots"


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Read the settings; raises InvalidSetting naming the variable for a bad value or an unknown MNEMOLOG_ name."""
    for name in environ:
        if name.startswith("MNEMOLOG_") and name not in VARIABLES and name not in HOOK_VARIABLES:
            raise InvalidSetting(f"{name} is not a setting; there are: {', '.join(VARIABLES)}")
    home = Path(environ.get("HOME") or "~").expanduser()
    port = _number(environ, "MNEMOLOG_PORT", 3111, 1, 65535)
    return Settings(
        redis_url=_redis_url(environ, "REDIS_URL"),
        jobs_redis_url=_redis_url(environ, "MNEMOLOG_JOBS_REDIS_URL"),
        data_dir=_folder(environ, "MNEMOLOG_DATA_DIR", "XDG_DATA_HOME", home / ".local/share"),
        cache_dir=_folder(environ, "MNEMOLOG_CACHE_DIR", "XDG_CACHE_HOME", home / ".cache"),
        host=environ.get("MNEMOLOG_HOST") or "127.0.0.1",
        port=port,
        secret=environ.get("MNEMOLOG_SECRET") or None,
        hosts=_names(environ.get("MNEMOLOG_HOSTS") or ""),
        origins=_names(environ.get("MNEMOLOG_ORIGINS") or ""),
        tenant=environ.get("MNEMOLOG_TENANT") or "default",
        partitions=_number(environ, "MNEMOLOG_PARTITIONS", 16, 1, 1024),
        dedup_window=_number(environ, "MNEMOLOG_DEDUP_WINDOW", 3600, 1, 31_536_000),
        dedup_ids=_number(environ, "MNEMOLOG_DEDUP_IDS", 250_000, 100, 100_000_000),
        durability=_durability(environ),
        embedder=environ.get("MNEMOLOG_EMBEDDER") or "default",
        embedding_cache_days=_days(environ, "MNEMOLOG_EMBEDDING_CACHE_DAYS", 30.0),
        embedders=_names(environ.get("MNEMOLOG_EMBEDDERS") or ""),
        embedder_key=environ.get("MNEMOLOG_EMBEDDER_KEY") or None,
        snapshot_every=_number(environ, "MNEMOLOG_SNAPSHOT_EVERY", 5_000, 1, 10_000_000),
        session_idle_minutes=_number(environ, "MNEMOLOG_SESSION_IDLE_MINUTES", 30, 1, 525_600),
        retain_sessions_days=_days(environ, "MNEMOLOG_RETAIN_SESSIONS", 1.0)
        if environ.get("MNEMOLOG_RETAIN_SESSIONS")
        else None,
        condense_threshold=_number(environ, "MNEMOLOG_CONDENSE_THRESHOLD", 100, 0, 1_000_000),
        condense_batch=_number(environ, "MNEMOLOG_CONDENSE_BATCH", 50, 2, 1_000),
        condense_every=_number(environ, "MNEMOLOG_CONDENSE_EVERY", 300, 1, 86_400),
        purge_every=_number(environ, "MNEMOLOG_PURGE_EVERY", 60, 1, 86_400),
        archive=environ.get("MNEMOLOG_ARCHIVE") or "",
        archive_after=_number(environ, "MNEMOLOG_ARCHIVE_AFTER", 3600, 0, 31_536_000),
        rebuild_keep=_number(environ, "MNEMOLOG_REBUILD_KEEP", 3600, 60, 2_592_000),
        backup=environ.get("MNEMOLOG_BACKUP") or "",
        backup_every=_number(environ, "MNEMOLOG_BACKUP_EVERY", 3600, 1, 31_536_000),
        backup_keep=_number(environ, "MNEMOLOG_BACKUP_KEEP", 7, 1, 10_000),
        restore="never" if _choice(environ, "MNEMOLOG_RESTORE", "auto", ("auto", "never")) == "never" else "auto",
        dataset_repo=environ.get("AGENTMEMORY_DATASET_REPO") or "",
        hf_token=environ.get("HF_TOKEN") or None,
        llm=environ.get("MNEMOLOG_LLM") or "",
        llm_key=environ.get("MNEMOLOG_LLM_KEY") or None,
        llm_daily_tokens=environ.get("MNEMOLOG_LLM_DAILY_TOKENS") or "",
        mcp_profile=environ.get("MNEMOLOG_MCP_PROFILE") or "native",
        observations_per_session=_number(environ, "MAX_OBS_PER_SESSION", 0, 0, 100_000_000),
        read_wait=_number(environ, "MNEMOLOG_READ_WAIT", 1, 0, 60),
        memory_ceiling=_size(environ, "MNEMOLOG_MEMORY_CEILING", "85%", parse_bytes_or_share),
        lag_ceiling=_number(environ, "MNEMOLOG_LAG_CEILING", 1_000_000, 0, 1_000_000_000_000),
        disk_floor=_size(environ, "MNEMOLOG_DISK_FLOOR", "", parse_bytes),
        agent_id=environ.get("AGENT_ID") or "",
        agent_scope="isolated"
        if _choice(environ, "AGENTMEMORY_AGENT_SCOPE", "shared", ("shared", "isolated")) == "isolated"
        else "shared",
        token_budget=_number(environ, "TOKEN_BUDGET", 2_000, 1, 1_000_000),
        drop_in=_drop_ins(environ.get("MNEMOLOG_DROP_IN") or ""),
        agentd_ports=_ports(environ, "MNEMOLOG_AGENTD_PORT", 17008),
        agent_memory_ports=_ports(environ, "MNEMOLOG_AGENT_MEMORY_PORT", 3377),
        memex_ports=_ports(environ, "MNEMOLOG_MEMEX_PORT", 8000),
        memex_mcp_ports=_ports(environ, "MNEMOLOG_MEMEX_MCP_PORT", 8001),
        memex_mcp_hosts=_names(environ.get("MNEMOLOG_MEMEX_MCP_HOSTS") or ""),
        agentd_origins=environ.get("AGENTD_CORS_ORIGINS") or "*",
        agentd_strict=_choice(environ, "MNEMOLOG_AGENTD_STRICT", "off", ("off", "on")) == "on",
        agent_memory_spool=Path(environ.get("AGENT_MEMORY_SPOOL") or Path(tempfile.gettempdir(), "agent-memory-spool")),
        memex_writes_per_minute=_number(environ, "RATE_LIMIT_WRITES_PER_MINUTE", 60, 1, 1_000_000_000),
        memex_searches_per_minute=_number(environ, "RATE_LIMIT_SEARCHES_PER_MINUTE", 120, 1, 1_000_000_000),
        memex_half_life_days=_days(environ, "RECENCY_DECAY_DAYS", 30.0),
        import_folders=tuple(map(Path, _names(environ.get("MNEMOLOG_IMPORT_FOLDERS") or "~/.claude/projects"))),
        spool=_spool(environ, home, port),
        log_level=_choice(environ, "MNEMOLOG_LOG_LEVEL", "info", ("debug", "info", "warning", "error")),
        url=environ.get("MNEMOLOG_URL") or f"http://127.0.0.1:{port}",
    )


def to_environment(settings: Settings) -> dict[str, str]:
    """The variables that make a child process read the same settings."""
    values = {
        "REDIS_URL": settings.redis_url,
        "MNEMOLOG_JOBS_REDIS_URL": settings.jobs_redis_url,
        "MNEMOLOG_DATA_DIR": str(settings.data_dir),
        "MNEMOLOG_CACHE_DIR": str(settings.cache_dir),
        "MNEMOLOG_HOST": settings.host,
        "MNEMOLOG_PORT": str(settings.port),
        "MNEMOLOG_SECRET": settings.secret,
        "MNEMOLOG_HOSTS": ",".join(settings.hosts) or None,
        "MNEMOLOG_ORIGINS": ",".join(settings.origins) or None,
        "MNEMOLOG_TENANT": settings.tenant,
        "MNEMOLOG_PARTITIONS": str(settings.partitions),
        "MNEMOLOG_DEDUP_WINDOW": str(settings.dedup_window),
        "MNEMOLOG_DEDUP_IDS": str(settings.dedup_ids),
        "MNEMOLOG_DURABILITY": settings.durability,
        "MNEMOLOG_EMBEDDER": settings.embedder,
        "MNEMOLOG_EMBEDDING_CACHE_DAYS": str(settings.embedding_cache_days),
        "MNEMOLOG_EMBEDDERS": ",".join(settings.embedders) or None,
        "MNEMOLOG_EMBEDDER_KEY": settings.embedder_key,
        "MNEMOLOG_SNAPSHOT_EVERY": str(settings.snapshot_every),
        "MNEMOLOG_SESSION_IDLE_MINUTES": str(settings.session_idle_minutes),
        "MNEMOLOG_RETAIN_SESSIONS": None
        if settings.retain_sessions_days is None
        else str(settings.retain_sessions_days),
        "MNEMOLOG_CONDENSE_THRESHOLD": str(settings.condense_threshold),
        "MNEMOLOG_CONDENSE_BATCH": str(settings.condense_batch),
        "MNEMOLOG_CONDENSE_EVERY": str(settings.condense_every),
        "MNEMOLOG_PURGE_EVERY": str(settings.purge_every),
        "MNEMOLOG_ARCHIVE": settings.archive,
        "MNEMOLOG_ARCHIVE_AFTER": str(settings.archive_after),
        "MNEMOLOG_REBUILD_KEEP": str(settings.rebuild_keep),
        "MNEMOLOG_BACKUP": settings.backup,
        "MNEMOLOG_BACKUP_EVERY": str(settings.backup_every),
        "MNEMOLOG_BACKUP_KEEP": str(settings.backup_keep),
        "MNEMOLOG_RESTORE": settings.restore,
        "AGENTMEMORY_DATASET_REPO": settings.dataset_repo,
        "HF_TOKEN": settings.hf_token,
        "MNEMOLOG_LLM": settings.llm,
        "MNEMOLOG_LLM_KEY": settings.llm_key,
        "MNEMOLOG_LLM_DAILY_TOKENS": settings.llm_daily_tokens,
        "MNEMOLOG_MCP_PROFILE": settings.mcp_profile,
        "MAX_OBS_PER_SESSION": str(settings.observations_per_session),
        "MNEMOLOG_READ_WAIT": str(settings.read_wait),
        "MNEMOLOG_MEMORY_CEILING": settings.memory_ceiling,
        "MNEMOLOG_LAG_CEILING": str(settings.lag_ceiling),
        "MNEMOLOG_DISK_FLOOR": settings.disk_floor,
        "AGENT_ID": settings.agent_id,
        "AGENTMEMORY_AGENT_SCOPE": settings.agent_scope,
        "TOKEN_BUDGET": str(settings.token_budget),
        "MNEMOLOG_DROP_IN": ",".join(settings.drop_in),
        "MNEMOLOG_AGENTD_PORT": _listed(settings.agentd_ports),
        "MNEMOLOG_AGENT_MEMORY_PORT": _listed(settings.agent_memory_ports),
        "MNEMOLOG_MEMEX_PORT": _listed(settings.memex_ports),
        "MNEMOLOG_MEMEX_MCP_PORT": _listed(settings.memex_mcp_ports),
        "MNEMOLOG_MEMEX_MCP_HOSTS": ",".join(settings.memex_mcp_hosts) or None,
        "AGENTD_CORS_ORIGINS": settings.agentd_origins,
        "MNEMOLOG_AGENTD_STRICT": "on" if settings.agentd_strict else "off",
        "AGENT_MEMORY_SPOOL": str(settings.agent_memory_spool),
        "RATE_LIMIT_WRITES_PER_MINUTE": str(settings.memex_writes_per_minute),
        "RATE_LIMIT_SEARCHES_PER_MINUTE": str(settings.memex_searches_per_minute),
        "RECENCY_DECAY_DAYS": str(settings.memex_half_life_days),
        "MNEMOLOG_IMPORT_FOLDERS": ",".join(map(str, settings.import_folders)),
        "MNEMOLOG_SPOOL": None if settings.spool is None else str(settings.spool),
        "MNEMOLOG_LOG_LEVEL": settings.log_level,
        "MNEMOLOG_URL": settings.url,
    }
    return {name: value for name, value in values.items() if value is not None}


def _redis_url(environ: Mapping[str, str], name: str) -> str | None:
    url = environ.get(name) or None
    if url is not None and not is_redis_url(url):  # which may hold a password
        raise InvalidSetting(f"{name} is not the address of a Redis or Valkey server: write {FORMS}")
    return url


def _folder(environ: Mapping[str, str], name: str, xdg: str, fallback: Path) -> Path:
    if chosen := environ.get(name):
        return Path(chosen).expanduser()
    return Path(environ.get(xdg) or fallback) / "mnemolog"


def _spool(environ: Mapping[str, str], home: Path, port: int) -> Path:
    """One for each port: two servers of a user do not take each other's events. The hooks find it by the same rule."""
    if chosen := environ.get("MNEMOLOG_SPOOL"):
        return Path(chosen).expanduser()
    return Path(environ.get("XDG_STATE_HOME") or home / ".local/state") / "mnemolog/spool" / str(port)


def _number(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    raw = environ.get(name)
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise InvalidSetting(f"{name}={raw!r} is not a whole number") from None
    if not least <= value <= most:
        raise InvalidSetting(f"{name}={value} is not between {least} and {most}")
    return value


def _size(environ: Mapping[str, str], name: str, default: str, parse: Callable[[str], float]) -> str:
    """The text as it was given, once it is known that it can be read."""
    raw = environ.get(name) or default
    try:
        if raw:
            parse(raw)
    except ValueError as fault:
        raise InvalidSetting(f"{name}={raw}: {fault}") from None
    return raw


def _choice(environ: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    value = (environ.get(name) or default).lower()
    if value not in choices:
        raise InvalidSetting(f"{name}={value!r} is not one of {', '.join(choices)}")
    return value


def _durability(environ: Mapping[str, str]) -> Durability | None:
    try:
        return parse_durability(environ.get("MNEMOLOG_DURABILITY", "").lower() or None, "MNEMOLOG_DURABILITY")
    except CommandRejected as error:
        raise InvalidSetting(f"MNEMOLOG_DURABILITY: {error}") from None


def _drop_ins(raw: str) -> tuple[str, ...]:
    """The doors that a comma list names, in the order of DROP_INS; `all` names every one."""
    names = {name for name in map(str.strip, raw.lower().split(",")) if name}
    if unknown := sorted(names - {*DROP_INS, "all"}):
        raise InvalidSetting(
            f"MNEMOLOG_DROP_IN: there is no door {unknown[0]!r}; there are: {', '.join(DROP_INS)}, all"
        )
    return tuple(name for name in DROP_INS if name in names or "all" in names)


def _ports(environ: Mapping[str, str], name: str, default: int) -> tuple[int, ...]:
    parts = [part.strip() for part in (environ.get(name) or str(default)).split(",")]
    return tuple(_number({name: part}, name, default, 1, 65535) for part in parts if part)


def _names(raw: str) -> tuple[str, ...]:
    return tuple(name for name in map(str.strip, raw.split(",")) if name)


def _listed(ports: tuple[int, ...]) -> str:
    return ",".join(map(str, ports))


def _days(environ: Mapping[str, str], name: str, default: float) -> float:
    raw = environ.get(name)
    try:
        days = float(raw) if raw else default
    except ValueError:
        raise InvalidSetting(f"{name}={raw!r} is not a number") from None
    if not 0 < days <= 36_500:
        raise InvalidSetting(f"{name}={days} is not between 0 and 36500")
    return days
