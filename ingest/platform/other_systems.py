"""The variables of the imitated systems' servers: which set one of ours, and which have no effect here.

`docs/dropin.md` lists them with what to set instead; a test compares.
"""

from collections.abc import Iterator, Mapping

from ingest.errors import InvalidSetting

OTHER_NAMES = {
    "AGENTMEMORY_SECRET": "MNEMOLOG_SECRET",
    "III_REST_PORT": "MNEMOLOG_PORT",
    "AGENTD_PORT": "MNEMOLOG_AGENTD_PORT",
    "AGENTD_LOG_FORMAT": "MNEMOLOG_LOG_FORMAT",
    "SUMMARIZATION_ENABLED": "MNEMOLOG_CONDENSE_THRESHOLD",
    "SUMMARIZATION_THRESHOLD": "MNEMOLOG_CONDENSE_THRESHOLD",
    "SUMMARIZATION_BATCH_SIZE": "MNEMOLOG_CONDENSE_BATCH",
    "SUMMARIZATION_INTERVAL_SECONDS": "MNEMOLOG_CONDENSE_EVERY",
}
"""Variables that set one of ours while ours is unset or empty; of several the first."""
IGNORED = {
    "agentmemory": """CONSOLIDATION_ENABLED CONSOLIDATION_DECAY_DAYS GRAPH_EXTRACTION_ENABLED LESSON_DECAY_ENABLED
        AUTO_FORGET_ENABLED AUTO_FORGET_INTERVAL_MS AGENTMEMORY_SLOTS AGENTMEMORY_REFLECT AGENTMEMORY_TOOLS
        AGENTMEMORY_CONSOLIDATION_COOLDOWN_MS AGENTMEMORY_FOLLOWUP_WINDOW_SECONDS AGENTMEMORY_GRAPH_WEIGHT BM25_WEIGHT
        VECTOR_WEIGHT AGENTMEMORY_AUTO_COMPRESS GEMINI_API_KEY GOOGLE_API_KEY""",
    "agentd": """AGENTD_MEMORY_EMBEDDING_PROVIDER AGENTD_MEMORY_EMBEDDING_MODEL AGENTD_MEMORY_EMBEDDING_API_KEY
        AGENTD_MEMORY_EMBEDDING_ENDPOINT AGENTD_MEMORY_LANCE_PATH AGENTD_MEMORY_LANCE_TABLE AGENTD_ENV""",
    "agent-memory": """POSTGRES_USER POSTGRES_PASSWORD POSTGRES_HOST POSTGRES_PORT POSTGRES_DB DATABASE_URL
        AGENT_MEMORY_DATABASE_URL EMBEDDING_MODEL AGENT_MEMORY_EMBEDDING_MODEL OBSERVATION_LLM_MODEL ANTHROPIC_API_KEY
        QUEUE_POLL_INTERVAL QUEUE_MAX_RETRIES""",
    "memex": """DATABASE_URL DB_MIN_POOL_SIZE DB_MAX_POOL_SIZE DB_COMMAND_TIMEOUT WORKER_THREAD_POOL_SIZE WORKERS
        APP_NAME DEFAULT_TOP_K DEFAULT_ALPHA EMBEDDING_DIMENSIONS""",
}
"""By system, variables that have no effect here."""


def stated(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that sets `name`, ours before others, and its value; empty where there is none."""
    if value := environ.get(name):
        return name, value
    others = ((other, _value(other, environ)) for other, ours in OTHER_NAMES.items() if ours == name)
    return next((one for one in others if one[1]), (name, ""))


def without_other_names(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process, which gets all settings under our names."""
    return {name: value for name, value in environ.items() if name not in OTHER_NAMES}


def warnings(environ: Mapping[str, str], drop_ins: tuple[str, ...]) -> Iterator[str]:
    """What a starting server logs about variables without effect, of the systems whose APIs it serves.

    Raises InvalidSetting where a variable contradicts ours: the operator decides.
    """
    for other, ours in OTHER_NAMES.items():
        if (value := _value(other, environ)) and environ.get(ours, value) not in ("", value):
            raise InvalidSetting(f"{other} and {ours} are both set, to different values: unset one of them")
    for system in ("agentmemory", *drop_ins):
        if found := [name for name in IGNORED[system].split() if environ.get(name)]:
            yield f"{', '.join(found)} of {system}: no effect here; docs/dropin.md has the settings to use instead"


def _value(other: str, environ: Mapping[str, str]) -> str:
    """What a variable sets ours to; a summarizer that is switched off has the threshold 0, which condenses nothing."""
    value = environ.get(other, "")
    if other == "SUMMARIZATION_ENABLED":
        return "0" if value.strip().lower() in ("false", "f", "0", "no", "n", "off") else ""
    return value
