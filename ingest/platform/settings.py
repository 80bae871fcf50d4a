"""Settings, read once from the environment by a composition root and handed down; sizes as people write them.

The variables of the imitated systems' servers are here too: which set one of ours, and which have no effect
(`docs/dropin.md` lists them with what to set instead; a test compares).
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

from msgspec import Struct

from ingest.durability import Durability, parse_durability
from ingest.errors import CommandRejected, InvalidSetting
from ingest.names import comma_separated, nfc
from ingest.platform.addresses import FORMS, fault_of_url, is_cluster, is_redis_url, search_engine_of
from ingest.platform.files import docs_page, toml_beside
from ingest.platform.processes import usable_cores
from ingest.roles import roles_by_scope

_UNITS = {
    "": 1, "b": 1,
    "k": 1 << 10, "kib": 1 << 10, "kb": 10**3,
    "m": 1 << 20, "mib": 1 << 20, "mb": 10**6,
    "g": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "t": 1 << 40, "tib": 1 << 40, "tb": 10**12,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def parse_bytes(text: str) -> int:
    """A number of bytes, with or without a unit; raises ValueError, whose message says what can be written."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"{text!r} is not a size; write bytes, or a number and a unit: 512MiB, 2GiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def parse_bytes_or_share(text: str) -> int | float:
    """A number of bytes (int), or a share of something as a float above 0 and at most 1; raises ValueError."""
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        return parse_bytes(text)
    share = float(match[1]) / 100
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not between 0% and 100%")
    return share


def mib(size: int) -> str:
    """Bytes in words, rounded to whole MiB."""
    return f"{size / 2**20:,.0f} MiB"


EMBEDDERS = (
    "default", "multilingual", "none", "onnx:DIRECTORY", "sentence-transformers:NAME", "openai:URL|MODEL|DIMENSIONS",
)  # fmt: skip
_EMBEDDER = re.compile(r"default(:late)?|multilingual|none|(onnx|sentence-transformers):.+|openai:[^|]+\|.+\|\d+")

DROP_INS = ("agentd", "agent-memory", "memex")
"""The systems whose clients call separate ports."""

MOST_WORKERS = 4
"""The default maximum of workers: each takes about 100 MB, and one projects thousands of events a second."""

SCOPES = ("mnemolog:read=read", "mnemolog:write=write", "mnemolog:admin=admin")
"""The default roles of access token scopes."""

_VARIABLES = toml_beside(__file__, "variables.toml")
VARIABLES: dict[str, str] = _VARIABLES["server"]
"""Every variable with its description; the documentation and compose.yaml are checked against it."""

CLIENT_VARIABLES: dict[str, str] = _VARIABLES["clients"]
"""Read by clients: the first by all of them, the others by `api/agents/recording.py`. Servers ignore them."""


_Parse = Callable[[str], object]
"""Parses the value of a variable. Raises ValueError or CommandRejected; or InvalidSetting, whose text begins right
after the variable's name. Texts omit anything that can contain a password."""


def _folder(raw: str) -> Path:
    return Path(raw).expanduser()


def _names(raw: str) -> tuple[str, ...]:
    return tuple(comma_separated(raw))


def _paths(raw: str) -> tuple[Path, ...]:
    return tuple(map(Path, _names(raw)))


def _whole(least: int, most: int) -> _Parse:
    def parse(raw: str) -> int:
        try:
            value = int(raw)
        except ValueError:
            raise InvalidSetting(f"={raw!r} is not a whole number") from None
        if not least <= value <= most:
            raise InvalidSetting(f"={value} is not between {least} and {most}")
        return value

    return parse


def _ports(raw: str) -> tuple[object, ...]:
    return tuple(map(_whole(1, 65535), _names(raw)))


def _days(raw: str) -> float:
    try:
        days = float(raw)
    except ValueError:
        raise InvalidSetting(f"={raw!r} is not a number") from None
    if not 0 < days <= 36_500:
        raise InvalidSetting(f"={days} is not between 0 and 36500")
    return days


def _size(parse_size: Callable[[str], float]) -> _Parse:
    """Reads a size as text, after checking it."""

    def parse(raw: str) -> str:
        try:
            parse_size(raw)
        except ValueError as error:
            raise InvalidSetting(f"={raw}: {error}") from None
        return raw

    return parse


def _choice(*choices: str) -> _Parse:
    def parse(raw: str) -> str:
        value = raw.lower()
        if value not in choices:
            raise InvalidSetting(f"={value!r} is not one of {', '.join(choices)}")
        return value

    return parse


def _on_off(raw: str) -> bool:
    return _choice("off", "on", "0", "1")(raw) in ("on", "1")


def _durability(raw: str) -> Durability | None:
    return parse_durability(raw.lower(), "")


def _redis_url(raw: str) -> str:
    if not is_redis_url(raw):
        raise InvalidSetting(f" is not a Redis or Valkey URL: write {FORMS}")
    return raw


def _index(raw: str) -> str:
    search_engine_of(raw, "redis://named-elsewhere")
    return raw


def _url(*, secure: bool = True, query: bool = False) -> _Parse:
    def parse(raw: str) -> str:
        if error := fault_of_url(raw, secure=secure, query=query):
            raise InvalidSetting(f" {error}")
        return raw

    return parse


def _embedder(raw: str) -> str:
    if not _EMBEDDER.fullmatch(raw):
        value, separator, _ = raw.partition(":")  # the rest may have a password
        near = "".join(f"; did you mean {name}?" for name in get_close_matches(value, EMBEDDERS, n=1) if not separator)
        raise InvalidSetting(f"={value}{separator and ':…'} is not one of {', '.join(EMBEDDERS)}{near}")
    if wrong := raw.startswith("openai:") and fault_of_url(raw[7:].partition("|")[0], secure=False):
        raise InvalidSetting(f": the URL {wrong}; put the key in MNEMOLOG_EMBEDDER_KEY")
    return raw


def _embedders(raw: str) -> tuple[str, ...]:
    return tuple(map(_embedder, _names(raw)))


def _scopes(raw: str) -> tuple[str, ...]:
    if not roles_by_scope(_names(raw)):
        raise InvalidSetting(" names no scope")
    return _names(raw)


def _origins(raw: str) -> tuple[str, ...]:
    origins = tuple(origin.rstrip("/").lower() for origin in _names(raw))  # as browsers send them
    for origin in origins:
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@*\s]+", origin):
            raise ValueError(
                f"{origin!r} is not the origin of a page; list each as SCHEME://HOST[:PORT]. `*` and `null` are not "
                "possible: with them, any web page could read and delete memories"
            )
    return origins


def _drop_ins(raw: str) -> tuple[str, ...]:
    names = set(_names(raw.lower()))
    if unknown := sorted(names - {*DROP_INS, "all"}):
        raise ValueError(f"there is no compatibility API {unknown[0]!r}; valid names: {', '.join(DROP_INS)}, all")
    return tuple(drop_in for drop_in in DROP_INS if drop_in in names or "all" in names)


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be configured: each field with its variable, and how that is read where it is no text."""

    redis_url: Annotated[str | None, "REDIS_URL", _redis_url] = None
    jobs_redis_url: Annotated[str | None, "MNEMOLOG_JOBS_REDIS_URL", _redis_url] = None
    data_dir: Annotated[Path, "MNEMOLOG_DATA_DIR", _folder]
    cache_dir: Annotated[Path, "MNEMOLOG_CACHE_DIR", _folder]
    host: Annotated[str, "MNEMOLOG_HOST"] = "127.0.0.1"
    port: Annotated[int, "MNEMOLOG_PORT", _whole(1, 65535)] = 3111
    api_processes: Annotated[int, "MNEMOLOG_API_PROCESSES", _whole(1, 64)] = 1
    secret: Annotated[str | None, "MNEMOLOG_SECRET"] = None
    hosts: Annotated[tuple[str, ...], "MNEMOLOG_HOSTS", _names] = ()
    allowed_origins: Annotated[tuple[str, ...], "MNEMOLOG_ALLOWED_ORIGINS", _origins] = ()
    connections: Annotated[int, "MNEMOLOG_CONNECTIONS", _whole(0, 1_000_000)] = 1_000
    head_seconds: Annotated[int, "MNEMOLOG_HEAD_SECONDS", _whole(1, 3_600)] = 10
    body_seconds: Annotated[int, "MNEMOLOG_BODY_SECONDS", _whole(1, 3_600)] = 30
    tenant: Annotated[str, "MNEMOLOG_TENANT"] = "default"
    oauth_issuer: Annotated[str, "MNEMOLOG_OAUTH_ISSUER", _url()] = ""
    oauth_resource: Annotated[str, "MNEMOLOG_OAUTH_RESOURCE", _url(secure=False)] = ""
    oauth_audience: Annotated[tuple[str, ...], "MNEMOLOG_OAUTH_AUDIENCE", _names] = ()
    oauth_jwks: Annotated[str, "MNEMOLOG_OAUTH_JWKS", _url(query=True)] = ""
    oauth_scopes: Annotated[tuple[str, ...], "MNEMOLOG_OAUTH_SCOPES", _scopes] = SCOPES
    oauth_tenant_claim: Annotated[str, "MNEMOLOG_OAUTH_TENANT_CLAIM"] = ""
    oauth_projects_claim: Annotated[str, "MNEMOLOG_OAUTH_PROJECTS_CLAIM"] = ""
    oauth_agents_claim: Annotated[str, "MNEMOLOG_OAUTH_AGENTS_CLAIM"] = ""
    oauth_reads: Annotated[int, "MNEMOLOG_OAUTH_READS", _whole(0, 100_000_000)] = 0
    oauth_writes: Annotated[int, "MNEMOLOG_OAUTH_WRITES", _whole(0, 100_000_000)] = 0
    partitions: Annotated[int, "MNEMOLOG_PARTITIONS", _whole(1, 1024)] = 16
    workers: Annotated[int, "MNEMOLOG_WORKERS", _whole(1, 256)] = 1
    dedup_window: Annotated[int, "MNEMOLOG_DEDUP_WINDOW", _whole(1, 31_536_000)] = 3600
    dedup_ids: Annotated[int, "MNEMOLOG_DEDUP_IDS", _whole(100, 100_000_000)] = 250_000
    durability: Annotated[Durability | None, "MNEMOLOG_DURABILITY", _durability] = None
    embedder: Annotated[str, "MNEMOLOG_EMBEDDER", _embedder] = "default"
    embedders: Annotated[tuple[str, ...], "MNEMOLOG_EMBEDDERS", _embedders] = ()
    embedding_queue: Annotated[int, "MNEMOLOG_EMBEDDING_QUEUE", _whole(1, 10_000_000)] = 20_000
    read_ledger: Annotated[int, "MNEMOLOG_READ_LEDGER", _whole(0, 10_000_000)] = 100_000
    embedding_cache_days: Annotated[float, "MNEMOLOG_EMBEDDING_CACHE_DAYS", _days] = 30.0
    embedder_key: Annotated[str | None, "MNEMOLOG_EMBEDDER_KEY"] = None
    index: Annotated[str, "MNEMOLOG_INDEX", _index] = "embedded"
    snapshot_every: Annotated[int, "MNEMOLOG_SNAPSHOT_EVERY", _whole(1, 10_000_000)] = 5_000
    session_idle_minutes: Annotated[int, "MNEMOLOG_SESSION_IDLE_MINUTES", _whole(1, 525_600)] = 30
    retain_sessions_days: Annotated[float | None, "MNEMOLOG_RETAIN_SESSIONS", _days] = None
    condense_threshold: Annotated[int, "MNEMOLOG_CONDENSE_THRESHOLD", _whole(0, 1_000_000)] = 100
    condense_batch: Annotated[int, "MNEMOLOG_CONDENSE_BATCH", _whole(2, 1_000)] = 50
    condense_every: Annotated[int, "MNEMOLOG_CONDENSE_EVERY", _whole(1, 86_400)] = 300
    purge_every: Annotated[int, "MNEMOLOG_PURGE_EVERY", _whole(1, 86_400)] = 60
    archive: Annotated[str, "MNEMOLOG_ARCHIVE"] = ""
    archive_after: Annotated[int, "MNEMOLOG_ARCHIVE_AFTER", _whole(0, 31_536_000)] = 3600
    rebuild_keep: Annotated[int, "MNEMOLOG_REBUILD_KEEP", _whole(60, 2_592_000)] = 3600
    backup: Annotated[str, "MNEMOLOG_BACKUP"] = ""
    backup_every: Annotated[int, "MNEMOLOG_BACKUP_EVERY", _whole(1, 31_536_000)] = 3600
    backup_keep: Annotated[int, "MNEMOLOG_BACKUP_KEEP", _whole(1, 10_000)] = 7
    restore: Annotated[Literal["auto", "never"], "MNEMOLOG_RESTORE", _choice("auto", "never")] = "auto"
    dataset_repo: Annotated[str, "AGENTMEMORY_DATASET_REPO"] = ""
    hf_token: Annotated[str | None, "HF_TOKEN"] = None
    llm: Annotated[str, "MNEMOLOG_LLM"] = ""
    llm_key: Annotated[str | None, "MNEMOLOG_LLM_KEY"] = None
    llm_daily_tokens: Annotated[str, "MNEMOLOG_LLM_DAILY_TOKENS"] = ""
    mcp_profile: Annotated[str, "MNEMOLOG_MCP_PROFILE"] = "native"
    webhook_private: Annotated[bool, "MNEMOLOG_WEBHOOK_PRIVATE", _on_off] = False
    observations_per_session: Annotated[int, "MAX_OBS_PER_SESSION", _whole(0, 100_000_000)] = 0
    read_wait: Annotated[int, "MNEMOLOG_READ_WAIT", _whole(0, 60)] = 1
    memory_ceiling: Annotated[str, "MNEMOLOG_MEMORY_CEILING", _size(parse_bytes_or_share)] = "85%"
    lag_ceiling: Annotated[int, "MNEMOLOG_LAG_CEILING", _whole(0, 1_000_000_000_000)] = 1_000_000
    disk_floor: Annotated[str, "MNEMOLOG_DISK_FLOOR", _size(parse_bytes)] = ""
    agent_id: Annotated[str, "AGENT_ID", nfc] = ""
    agent_scope: Annotated[Literal["shared", "isolated"], "AGENTMEMORY_AGENT_SCOPE", _choice("shared", "isolated")] = (
        "shared"
    )
    token_budget: Annotated[int, "TOKEN_BUDGET", _whole(1, 1_000_000)] = 2_000
    drop_in: Annotated[tuple[str, ...], "MNEMOLOG_DROP_IN", _drop_ins] = ()
    agentd_ports: Annotated[tuple[int, ...], "MNEMOLOG_AGENTD_PORT", _ports] = (17008,)
    agent_memory_ports: Annotated[tuple[int, ...], "MNEMOLOG_AGENT_MEMORY_PORT", _ports] = (3377,)
    memex_ports: Annotated[tuple[int, ...], "MNEMOLOG_MEMEX_PORT", _ports] = (8000,)
    memex_mcp_ports: Annotated[tuple[int, ...], "MNEMOLOG_MEMEX_MCP_PORT", _ports] = (8001,)
    memex_mcp_hosts: Annotated[tuple[str, ...], "MNEMOLOG_MEMEX_MCP_HOSTS", _names] = ()
    agentd_strict: Annotated[bool, "MNEMOLOG_AGENTD_STRICT", _on_off] = False
    agent_memory_spool: Annotated[Path, "AGENT_MEMORY_SPOOL", Path] = Path(tempfile.gettempdir()) / "agent-memory-spool"
    memex_writes_per_minute: Annotated[int, "RATE_LIMIT_WRITES_PER_MINUTE", _whole(1, 1_000_000_000)] = 60
    memex_searches_per_minute: Annotated[int, "RATE_LIMIT_SEARCHES_PER_MINUTE", _whole(1, 1_000_000_000)] = 120
    memex_half_life_days: Annotated[float, "RECENCY_DECAY_DAYS", _days] = 30.0
    import_folders: Annotated[tuple[Path, ...], "MNEMOLOG_IMPORT_FOLDERS", _paths] = (Path("~/.claude/projects"),)
    spool: Annotated[Path | None, "MNEMOLOG_SPOOL", _folder] = None
    log_level: Annotated[str, "MNEMOLOG_LOG_LEVEL", _choice("debug", "info", "warning", "error")] = "info"
    log_format: Annotated[str, "MNEMOLOG_LOG_FORMAT", _choice("text", "json")] = "text"
    url: Annotated[str, "MNEMOLOG_URL"] = "http://127.0.0.1:3111"

    def required_redis_url(self) -> str:
        """The server of the log; raises InvalidSetting if no server is named."""
        if self.redis_url is None:
            raise InvalidSetting("REDIS_URL is not set; `mnemolog up` starts an embedded server and sets it")
        return self.redis_url

    @property
    def jobs_url(self) -> str:
        """The server of the job queue, empty if no server is named; raises InvalidSetting for a cluster (arq needs one
        server)."""
        url = self.jobs_redis_url or self.redis_url or ""
        if is_cluster(url):
            raise InvalidSetting(
                "MNEMOLOG_JOBS_REDIS_URL: the job queue cannot run on a cluster; set it to one Redis or Valkey server"
            )
        return url

    @property
    def search_engine(self) -> str | None:
        """The URL of the search engine that has the index; None for the embedded index. Raises InvalidSetting."""
        try:
            return search_engine_of(self.index, self.redis_url)
        except ValueError as error:
            raise InvalidSetting(f"MNEMOLOG_INDEX: {error}") from None

    @property
    def named_embedders(self) -> frozenset[str]:
        """The embedders that may be used because the settings name them, literally as they are written there."""
        return frozenset({self.embedder, *self.embedders})

    @property
    def backup_target(self) -> str:
        """Where backups go; empty for nowhere."""
        return self.backup or (f"hf://datasets/{self.dataset_repo}" if self.dataset_repo else "")

    @property
    def snapshots(self) -> Path:
        """Folder of index snapshots; the worker writes there and every API process reads there."""
        return self.data_dir / "snapshots"


_HINTS = get_type_hints(Settings, include_extras=True)
_FIELDS: dict[str, tuple[str, _Parse]] = {
    field: cast("tuple[str, _Parse]", (*get_args(_HINTS[field])[1:], str)[:2]) for field in Settings.__struct_fields__
}
"""Each field with its variable and its parser."""


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Read the settings; raises InvalidSetting naming the variable for a bad value or an unknown MNEMOLOG_ name."""
    for name in environ:
        if name.startswith("MNEMOLOG_") and name not in VARIABLES and name not in CLIENT_VARIABLES:
            near = get_close_matches(name, VARIABLES, n=1)
            advice = f"did you mean {near[0]}?" if near else f"valid settings: {', '.join(VARIABLES)}"
            raise InvalidSetting(f"{name} is not a setting; {advice}")
    home = Path(environ.get("HOME") or "~").expanduser()
    read: dict[str, Any] = {}
    for field, (name, parse) in _FIELDS.items():
        variable, raw = stated(name, environ)
        try:
            read |= {field: parse(raw)} if raw else {}
        except InvalidSetting as error:
            raise InvalidSetting(f"{variable}{error}") from None
        except (CommandRejected, ValueError) as error:
            raise InvalidSetting(f"{variable}: {error}") from None
    port: int = read.get("port", 3111)
    defaults: dict[str, Any] = {
        "data_dir": Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / "mnemolog",
        "cache_dir": Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "mnemolog",
        # one for each port: two servers of a user do not take each other's events; hooks find it by the same rule
        "spool": Path(environ.get("XDG_STATE_HOME") or home / ".local/state") / "mnemolog/spool" / str(port),
        "url": f"http://127.0.0.1:{port}",
        "workers": max(1, min(MOST_WORKERS, usable_cores() // 2)),
    }
    return Settings(**{**defaults, **read})


def to_environment(settings: Settings) -> dict[str, str]:
    """The variables that make a child process read the same settings; what is None has none."""
    variables: dict[str, str] = {}
    for field, (name, _) in _FIELDS.items():
        value: Any = getattr(settings, field)
        if isinstance(value, bool):
            value = "on" if value else "off"
        if value is not None:
            variables[name] = ",".join(map(str, cast("Any", value))) if isinstance(value, tuple) else str(value)
    return variables


OTHER_NAMES: dict[str, str] = _VARIABLES["other_names"]
"""Variables that are used if ours is unset or empty; the first one wins."""
IGNORED: dict[str, str] = _VARIABLES["ignored"]
"""By system, variables that have no effect here."""


def stated(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that sets `name`, ours before others, and its value; empty if unset."""
    if value := environ.get(name):
        return name, value
    others = ((other, _value(other, environ)) for other, ours in OTHER_NAMES.items() if ours == name)
    return next((other for other in others if other[1]), (name, ""))


def without_other_names(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process, which gets all settings under our names."""
    return {name: value for name, value in environ.items() if name not in OTHER_NAMES}


def warnings(environ: Mapping[str, str], drop_ins: tuple[str, ...]) -> Iterator[str]:
    """What a starting server logs about variables without effect, of the systems whose APIs it serves. Raises
    InvalidSetting where a variable contradicts ours: the operator decides."""
    for other, ours in OTHER_NAMES.items():
        if (value := _value(other, environ)) and environ.get(ours, value) not in ("", value):
            raise InvalidSetting(f"{other} and {ours} are both set, to different values: unset one of them")
    for system in ("agentmemory", *drop_ins):
        if names := [name for name in IGNORED[system].split() if environ.get(name)]:
            yield f"{', '.join(names)} of {system}: no effect here; settings to use instead: {docs_page('dropin.md')}"


def _value(other: str, environ: Mapping[str, str]) -> str:
    """What a variable sets ours to; a summarizer that is switched off has the threshold 0, which condenses nothing."""
    value = environ.get(other, "")
    if other == "SUMMARIZATION_ENABLED":
        return "0" if value.strip().lower() in ("false", "f", "0", "no", "n", "off") else ""
    return value
