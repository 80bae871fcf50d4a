"""The variables of the imitated systems' servers: which have a meaning here, and which have none.

`docs/dropin.md` lists them; a test compares.
"""

from collections.abc import Iterator, Mapping

from ingest.errors import InvalidSetting

OTHER_NAMES = {
    "AGENTMEMORY_SECRET": "MNEMOLOG_SECRET",
    "III_REST_PORT": "MNEMOLOG_PORT",
    "AGENTD_PORT": "MNEMOLOG_AGENTD_PORT",
    "AGENTD_LOG_FORMAT": "MNEMOLOG_LOG_FORMAT",
    "SUMMARIZATION_THRESHOLD": "MNEMOLOG_CONDENSE_THRESHOLD",
    "SUMMARIZATION_BATCH_SIZE": "MNEMOLOG_CONDENSE_BATCH",
    "SUMMARIZATION_INTERVAL_SECONDS": "MNEMOLOG_CONDENSE_EVERY",
}
"""Variables that set one of ours while ours is unset or empty."""
SUMMARIZATION_ENABLED = "SUMMARIZATION_ENABLED"
"""False: the threshold is 0, so that nothing is condensed."""
_FALSE = frozenset(("false", "f", "0", "no", "n", "off"))
_MODEL, _EMBEDDER = "MNEMOLOG_LLM names a language model", "MNEMOLOG_EMBEDDER names an embedding model"
_STORAGE = "the log is in MNEMOLOG_DATA_DIR, or on REDIS_URL; `mnemolog import` copies data of other systems"
_NOTHING = "there is no such setting here"
IGNORED: dict[str, tuple[tuple[str, ...], str]] = {
    "agentmemory": (
        ("CONSOLIDATION_ENABLED", "CONSOLIDATION_DECAY_DAYS", "GRAPH_EXTRACTION_ENABLED", "LESSON_DECAY_ENABLED",
         "AUTO_FORGET_ENABLED", "AUTO_FORGET_INTERVAL_MS", "AGENTMEMORY_SLOTS", "AGENTMEMORY_REFLECT",
         "AGENTMEMORY_TOOLS", "AGENTMEMORY_CONSOLIDATION_COOLDOWN_MS", "AGENTMEMORY_FOLLOWUP_WINDOW_SECONDS",
         "BM25_WEIGHT", "VECTOR_WEIGHT", "AGENTMEMORY_GRAPH_WEIGHT"),
        _NOTHING,
    ),
    "agentmemory models": (("AGENTMEMORY_AUTO_COMPRESS", "GEMINI_API_KEY", "GOOGLE_API_KEY"), _MODEL),
    "agentd": (
        ("AGENTD_MEMORY_EMBEDDING_PROVIDER", "AGENTD_MEMORY_EMBEDDING_MODEL", "AGENTD_MEMORY_EMBEDDING_API_KEY",
         "AGENTD_MEMORY_EMBEDDING_ENDPOINT"),
        _EMBEDDER,
    ),
    "agentd storage": (("AGENTD_MEMORY_LANCE_PATH", "AGENTD_MEMORY_LANCE_TABLE", "AGENTD_ENV"), _STORAGE),
    "agent-memory": (
        ("POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_DB", "DATABASE_URL",
         "AGENT_MEMORY_DATABASE_URL"),
        _STORAGE,
    ),
    "agent-memory models": (
        ("EMBEDDING_MODEL", "AGENT_MEMORY_EMBEDDING_MODEL", "OBSERVATION_LLM_MODEL", "ANTHROPIC_API_KEY"),
        f"{_MODEL}, {_EMBEDDER}",
    ),
    "agent-memory queue": (("QUEUE_POLL_INTERVAL", "QUEUE_MAX_RETRIES"), _NOTHING),
    "memex": (
        ("DB_MIN_POOL_SIZE", "DB_MAX_POOL_SIZE", "DB_COMMAND_TIMEOUT", "WORKER_THREAD_POOL_SIZE", "WORKERS", "APP_NAME",
         "DEFAULT_TOP_K", "DEFAULT_ALPHA", "EMBEDDING_DIMENSIONS"),
        _NOTHING,
    ),
    "memex storage": (("DATABASE_URL",), _STORAGE),
}  # fmt: skip
"""Variables without a meaning here, and what to know instead. Each group's first word is the system."""


def other_name(name: str, environ: Mapping[str, str]) -> str:
    """The variable of another system that sets `name`, which is unset itself; empty for none."""
    if environ.get(name):
        return ""
    if name == OTHER_NAMES["SUMMARIZATION_THRESHOLD"] and _is_off(environ):
        return SUMMARIZATION_ENABLED
    return next((other for other, ours in OTHER_NAMES.items() if ours == name and environ.get(other)), "")


def stated(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that says what `name` is, and its value; the value is empty where none does."""
    other = other_name(name, environ)
    if other == SUMMARIZATION_ENABLED:
        return other, "0"
    return (other, environ[other]) if other else (name, environ.get(name, ""))


def without_other_names(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process, which gets all settings under our names."""
    return {name: value for name, value in environ.items() if name not in OTHER_NAMES and name != SUMMARIZATION_ENABLED}


def warnings(environ: Mapping[str, str], drop_ins: tuple[str, ...]) -> Iterator[str]:
    """What the log of a starting server says about variables that it ignores, of the systems whose APIs it serves.

    Raises InvalidSetting where a variable contradicts ours: which one is meant is for the operator to say.
    """
    for other, ours in OTHER_NAMES.items():
        if environ.get(other) and environ.get(ours) and environ[other] != environ[ours]:
            raise InvalidSetting(f"{other} and {ours} are both set, to different values: unset one of them")
    for group, (names, instead) in IGNORED.items():
        if group.partition(" ")[0] in ("agentmemory", *drop_ins) and (
            found := [one for one in names if environ.get(one)]
        ):
            yield f"{', '.join(found)} of {group.partition(' ')[0]} is ignored: {instead} (docs/dropin.md)"


def _is_off(environ: Mapping[str, str]) -> bool:
    return environ.get(SUMMARIZATION_ENABLED, "").strip().lower() in _FALSE
