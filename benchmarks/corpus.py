"""What fleets write, made up: texts of some 550 characters with a wide vocabulary. The same number gives the same text.

Every text begins with a fact, and `question` asks about it in other words. Sentences come from templates; names of
hosts, branches and functions are made of syllables, with the frequencies of words (Zipf), so new ones keep coming.
"""

import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

SEED = 20261121
LENGTH = 520  # a text ends with the sentence that exceeds this many characters
NAMES = 40_000
SESSION = 50  # observations of a session
AT_A_TIME = 40  # sessions at a time, of as many agents
LESSONS = 500


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


SERVICES = _words("""
    checkout billing ledger search catalog inventory shipping payments identity session gateway scheduler notifier
    exporter importer recommender pricing fraud refund invoice archive replica router proxy crawler indexer
    tokenizer dashboard webhook mailer uploader transcoder sync audit quota license profile feed timeline comment
""")
PARTS = _words("""
    queue cache index schema migration worker retry pool token cursor lock lease batch snapshot checkpoint partition
    shard buffer stream handler parser validator serializer middleware limiter breaker heartbeat watermark manifest
    fixture adapter resolver registry planner budget timeout backoff dispatcher allocator
""")
ERRORS = _words("""
    ConnectionResetError TimeoutError KeyError ValueError AssertionError PermissionError UnicodeDecodeError
    IntegrityError OperationalError ProtocolError RecursionError MemoryError BrokenPipeError DeadlockDetected
    SerializationFailure InvalidSignature StaleReadError QuotaExceeded
""")
PEOPLE = _words("""
    Ada Bruno Chiara Dmitri Elif Farid Greta Hiro Imani Jonas Kavya Leila Mateo Nadia Oskar Priya Quentin Rosa Samir
    Tomas Uma Viktor Wanda Ximena Yusuf Zofia
""")
CAUSES = _phrases("""
    the connection pool was exhausted, two workers held the same lease, the index was missing on the tenant column,
    the client never read the Retry-After header, clocks of the two machines differed, a deploy restarted the
    primary, the certificate expired on Sunday, the batch was larger than the buffer, an old migration ran twice,
    the cache kept entries of a deleted account, the parser took a comma for a decimal point, the feature flag was
    on in one region only, the disk was full of core dumps, the queue dropped its oldest entries
""")
REMEDIES = _phrases("""
    raised the limit and added an alert, rolled the release back, moved the lock into the transaction, wrote a test
    that fails without the fix, made the write idempotent, split the batch by tenant, replaced the sleep by a wait
    for the event, pinned the version, closed the connection in a finally block, sorted the keys before taking
    locks, put the secret into the vault, read the replica's lag before each page, rebuilt the index at night
""")
WHEN = _phrases("""
    this morning, yesterday, last week, on Friday, after the release, during the freeze, over night, before the
    demo, two days ago, in the last sprint
""")
TOOLS = ("Bash", "Read", "Edit", "Grep", "WebFetch")
SYLLABLES = _words("""
    ba be bri ca ce clo da del do dra fa fen fi flo ga ger gri ha hel hi in jo ka ken li lo lum ma mer mi mo na nel
    no or pa per pli qui ra ren ri ro sa sel sho si sta ta tel ti tor ul va ven vi wo yar ze zi
""")

FACTS = (
    ("{person} moved {service} to {host} because {cause}.", "Why did {person} move {service} to {host}?"),
    ("{service} answers {ms} ms slower since branch {branch} went live.", "What did branch {branch} do to {service}?"),
    ("The {part} of {service} fails with {error} in {function}.", "Where does {function} of {service} break?"),
    ("{person} agreed with {customer} on {number} requests a second.", "How much load did {customer} agree to?"),
    ("Ticket {ticket}: {cause}, so {person} {remedy}.", "How was ticket {ticket} solved?"),
    ("Commit {commit} in {path} made {function} idempotent.", "Which commit changed {function}?"),
)
SENTENCES = (
    "We looked at {path} line {number} and saw that {cause}.",
    "The test {function} failed {when} with {error}: expected {number}, got {ms}.",
    "{person} {remedy}, and {service} was quiet again.",
    "Metrics of {host} show p99 at {ms} ms while the {part} holds {number} entries.",
    "Reverting {commit} did not help; the {part} still grows by {number} an hour.",
    "{customer} asked for the {part} of {service} to be moved {when}.",
    "Next: read {path}, add a case for {error}, and ask {person} about {branch}.",
    "The {part} between {service} and {host} was tuned {when}, from {number} to {ms}.",
    "It happens only when {cause} and {function} is called from the {part}.",
    "{person} prefers short answers and wants to see the command before it runs.",
    "Decision: keep {function} as it is, because {cause}.",
    "`pytest {path} -k {function}` passes locally and fails on {host}.",
)


@cache
def _names() -> list[str]:
    dice = random.Random(1)
    made = {"".join(dice.choices(SYLLABLES, k=dice.randint(2, 4))): None for _ in range(2 * NAMES)}
    return list(made)[:NAMES]


def _name(dice: random.Random) -> str:
    return _names()[int(NAMES ** dice.random()) - 1]


_SLOTS: dict[str, Callable[[random.Random], str]] = {
    "person": lambda dice: dice.choice(PEOPLE),
    "service": lambda dice: dice.choice(SERVICES),
    "part": lambda dice: dice.choice(PARTS),
    "error": lambda dice: dice.choice(ERRORS),
    "cause": lambda dice: dice.choice(CAUSES),
    "remedy": lambda dice: dice.choice(REMEDIES),
    "when": lambda dice: dice.choice(WHEN),
    "ms": lambda dice: str(dice.randint(2, 4_000)),
    "number": lambda dice: str(dice.randint(2, 90_000)),
    "host": lambda dice: f"{_name(dice)}-{dice.randint(1, 40)}",
    "branch": lambda dice: f"{dice.choice(('fix', 'feat', 'chore'))}/{_name(dice)}-{dice.choice(PARTS)}",
    "function": lambda dice: f"{dice.choice(PARTS)}_{_name(dice)}",
    "customer": lambda dice: f"{_name(dice).capitalize()} {dice.choice(('Ltd', 'AG', 'Labs', 'Group'))}",
    "ticket": lambda dice: f"{_name(dice)[:3].upper()}-{dice.randint(100, 99_999)}",
    "commit": lambda dice: f"{dice.getrandbits(28):07x}",
    "path": lambda dice: f"src/{dice.choice(SERVICES)}/{dice.choice(PARTS)}_{_name(dice)}.py",
}
_SLOT = re.compile(r"\{(\w+)\}")


def _dice(number: int, purpose: int = 0) -> random.Random:
    return random.Random((SEED + purpose) * 1_000_000_007 + number)


def _fact(number: int) -> tuple[str, str]:
    """The beginning of a text and the question about it, with the same names."""
    dice = _dice(number, 1)
    values = {name: fill(dice) for name, fill in _SLOTS.items()}
    fact, question = dice.choice(FACTS)
    return fact.format_map(values), question.format_map(values)


def _prose(begins: str, length: int, dice: random.Random) -> str:
    """The beginning, and different sentences until it is long enough; all of them are some 1,000 characters."""
    sentences, size = [begins], len(begins)
    for template in dice.sample(SENTENCES, len(SENTENCES)):
        if size >= length:
            break
        sentences.append(_SLOT.sub(lambda slot: _SLOTS[slot[1]](dice), template))
        size += len(sentences[-1]) + 1
    return " ".join(sentences)


def text(number: int, length: int = LENGTH) -> str:
    """A note of an agent, by its number."""
    return _prose(_fact(number)[0], length, _dice(number))


def question(number: int) -> str:
    """The question that the first sentence of the text with this number answers."""
    return _fact(number)[1]


def session_of(number: int) -> int:
    """The session of an observation."""
    return number // (AT_A_TIME * SESSION) * AT_A_TIME + number % AT_A_TIME


def observation(run: str, number: int, projects: int = 7) -> dict[str, Any]:
    """An observation of some 700 bytes of JSON; its id and its session are the run's."""
    session = session_of(number)
    return {
        "type": "observe",
        "event_id": f"{run}-{number}",
        "project": f"{run}-{session % projects}",
        "session_id": f"{run}-session-{session}",
        "agent_id": f"agent-{number % AT_A_TIME}",
        "kind": "task",
        "content": text(number),
        "occurred_at": "2026-01-31T12:00:00Z",
    }


def tool_use(run: str, number: int, projects: int = 7) -> dict[str, Any]:
    """What the hook of a coding agent sends about a tool use: its input, and its output as JSON text."""
    dice = _dice(number, 2)
    path, function = _SLOTS["path"](dice), _SLOTS["function"](dice)
    output = {"stdout": text(number, LENGTH // 2), "stderr": "", "interrupted": False, "filePath": path}
    data = {
        "tool_name": dice.choice(TOOLS),
        "tool_input": {"command": f"pytest {path} -k {function}", "file_path": path},
        "tool_output": json.dumps(output),
    }
    return {**observation(run, number, projects), "kind": "post_tool_use", "content": "", "data": data}


def mixed(run: str, number: int, projects: int = 7) -> dict[str, Any]:
    """An event of a fleet: of twenty, one each is a memory, lesson, slot and action, six are tool uses, ten are
    notes."""
    match number % 20:
        case 3 | 8 | 13 | 18:
            return _kept(run, number, projects)
        case 1 | 5 | 9 | 11 | 15 | 19:
            return tool_use(run, number, projects)
        case _:
            return observation(run, number, projects)


def _kept(run: str, number: int, projects: int) -> dict[str, Any]:
    dice = _dice(number, 3)
    base = {
        "event_id": f"{run}-{number}",
        "project": f"{run}-{number % projects}",
        "agent_id": f"agent-{number % AT_A_TIME}",
    }
    match number % 20:
        case 3:
            return {"type": "remember", "content": text(number, 150), "tags": dice.sample(PARTS, 2), **base}
        case 8:
            return {"type": "lesson", "content": text(number // 20 % LESSONS, 100), **base}
        case 13:
            return {"type": "slot", "label": dice.choice(PARTS[:8]), "content": _fact(number)[0][:60], **base}
        case _:
            return {"type": "action", "title": f"{_fact(number)[0][:80]} {number}", "priority": number % 5, **base}
