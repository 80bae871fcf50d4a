"""Settings, read once from the environment by a composition root and handed down."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ingest.errors import InvalidSetting

VARIABLES: dict[str, str] = {
    "REDIS_URL": "Redis >= 7 or Valkey >= 8 to use; unset: an embedded Valkey is started",
    "MNEMOLOG_DATA_DIR": "where the embedded Valkey and index snapshots live; default XDG_DATA_HOME/mnemolog",
    "MNEMOLOG_CACHE_DIR": "where the exported embedding model lives; default XDG_CACHE_HOME/mnemolog",
    "MNEMOLOG_HOST": "address to listen on; default 127.0.0.1",
    "MNEMOLOG_PORT": "main port; default 3111",
    "MNEMOLOG_SECRET": "bearer secret that every request but /livez must carry; unset: open",
    "MNEMOLOG_TENANT": "tenant of this server's callers; default `default`",
    "MNEMOLOG_PARTITIONS": "partitions of a new log, fixed at creation; default 16",
    "MNEMOLOG_EMBEDDER": "default, none, onnx:DIRECTORY, sentence-transformers:NAME or openai:URL|MODEL|DIMENSIONS",
    "MNEMOLOG_EMBEDDER_KEY": "API key for an openai: embedder",
    "MNEMOLOG_SNAPSHOT_EVERY": "entries of the change feed after which a new index snapshot is written; default 5000",
    "MNEMOLOG_LOG_LEVEL": "debug, info, warning or error; default info",
    "MNEMOLOG_URL": "server that the command line and the stdio bridge talk to; default http://127.0.0.1:3111",
}
"""Every variable with its meaning; the documentation and compose.yaml are checked against it."""


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be configured."""

    redis_url: str | None = None
    data_dir: Path
    cache_dir: Path
    host: str = "127.0.0.1"
    port: int = 3111
    secret: str | None = None
    tenant: str = "default"
    partitions: int = 16
    embedder: str = "default"
    embedder_key: str | None = None
    snapshot_every: int = 5_000
    log_level: str = "info"
    url: str = "http://127.0.0.1:3111"

    @property
    def model_directory(self) -> Path:
        """Folder of the exported default embedding model."""
        return self.cache_dir / "models" / "default"

    @property
    def snapshots(self) -> Path:
        """Folder of index snapshots; the worker writes there and every API process reads there."""
        return self.data_dir / "snapshots"


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Read the settings; raises InvalidSetting naming the variable for a bad value or an unknown MNEMOLOG_ name."""
    for name in environ:
        if name.startswith("MNEMOLOG_") and name not in VARIABLES:
            raise InvalidSetting(f"{name} is not a setting; there are: {', '.join(VARIABLES)}")
    home = Path(environ.get("HOME") or "~").expanduser()
    port = _number(environ, "MNEMOLOG_PORT", 3111, 1, 65535)
    return Settings(
        redis_url=environ.get("REDIS_URL") or None,
        data_dir=_folder(environ, "MNEMOLOG_DATA_DIR", "XDG_DATA_HOME", home / ".local/share"),
        cache_dir=_folder(environ, "MNEMOLOG_CACHE_DIR", "XDG_CACHE_HOME", home / ".cache"),
        host=environ.get("MNEMOLOG_HOST") or "127.0.0.1",
        port=port,
        secret=environ.get("MNEMOLOG_SECRET") or None,
        tenant=environ.get("MNEMOLOG_TENANT") or "default",
        partitions=_number(environ, "MNEMOLOG_PARTITIONS", 16, 1, 1024),
        embedder=environ.get("MNEMOLOG_EMBEDDER") or "default",
        embedder_key=environ.get("MNEMOLOG_EMBEDDER_KEY") or None,
        snapshot_every=_number(environ, "MNEMOLOG_SNAPSHOT_EVERY", 5_000, 1, 10_000_000),
        log_level=_choice(environ, "MNEMOLOG_LOG_LEVEL", "info", ("debug", "info", "warning", "error")),
        url=environ.get("MNEMOLOG_URL") or f"http://127.0.0.1:{port}",
    )


def to_environment(settings: Settings) -> dict[str, str]:
    """The variables that make a child process read the same settings."""
    values = {
        "REDIS_URL": settings.redis_url,
        "MNEMOLOG_DATA_DIR": str(settings.data_dir),
        "MNEMOLOG_CACHE_DIR": str(settings.cache_dir),
        "MNEMOLOG_HOST": settings.host,
        "MNEMOLOG_PORT": str(settings.port),
        "MNEMOLOG_SECRET": settings.secret,
        "MNEMOLOG_TENANT": settings.tenant,
        "MNEMOLOG_PARTITIONS": str(settings.partitions),
        "MNEMOLOG_EMBEDDER": settings.embedder,
        "MNEMOLOG_EMBEDDER_KEY": settings.embedder_key,
        "MNEMOLOG_SNAPSHOT_EVERY": str(settings.snapshot_every),
        "MNEMOLOG_LOG_LEVEL": settings.log_level,
        "MNEMOLOG_URL": settings.url,
    }
    return {name: value for name, value in values.items() if value is not None}


def _folder(environ: Mapping[str, str], name: str, xdg: str, fallback: Path) -> Path:
    if chosen := environ.get(name):
        return Path(chosen).expanduser()
    return Path(environ.get(xdg) or fallback) / "mnemolog"


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


def _choice(environ: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    value = (environ.get(name) or default).lower()
    if value not in choices:
        raise InvalidSetting(f"{name}={value!r} is not one of {', '.join(choices)}")
    return value
