"""Secrets and private text never get past a write, however they are spelled; everything else does, unchanged."""

import time
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_samples import listed, samples

import ingest.secrets.scrub
from ingest.secrets.scrub import MAX_DEPTH, NestedTooDeep, repair_text, scrub, scrub_text

GONE = "[REDACTED_SECRET]"
LONG = "Zz0123456789abcdefgh"
SECRETS = {
    "OpenAI project": "sk-proj-" + "aB3_-" * 4,
    "generic sk": "sk-" + "a1" * 10,
    "generic pk": "pk-" + "a1" * 10,
    "generic rk": "rk-" + "a1" * 10,
    "generic ak": "ak-" + "a1" * 10,
    "Anthropic": "sk-ant-" + "a1-" * 7,
    "GitHub ghp": "ghp_" + "aZ9" * 12,
    "GitHub ghu": "ghu_" + "aZ9" * 12,
    "GitHub ghs": "ghs_" + "aZ9" * 12,
    "GitHub fine-grained": "github_pat_" + "a_9" * 8,
    "Slack": "xoxb-1",
    "AWS": "AKIAIOSFODNN7EXAMPLF",
    "Google": "AIza" + "Sy_-7" * 7,
    "JWT": "eyJhbGciOiJIU.eyJzdWIiOiI.SflKxwRJSM",
    "npm": "npm_" + "aZ9" * 12,
    "GitLab": "glpat-" + "aZ9-" * 5,
    "DigitalOcean": "dop_v1_" + "0f" * 32,
    "bearer": "Bearer " + "aZ9._" * 4,
}


def test_a_secret_goes_and_its_surroundings_stay():
    surroundings = [("", ""), ("key is ", " now"), ('{"k":"', '"}'), ("é", "é"), ("x=", "\n")]
    for (name, secret), (before, after) in product(SECRETS.items(), surroundings):
        for spelled in (secret, secret.upper(), secret.lower()):
            assert scrub_text(before + spelled + after) == before + GONE + after, name


def test_an_assignment_goes_with_its_keyword():
    keywords = ["api_key", "API-KEY", "apiKey", "secret", "token", "Password", "credential", "auth"]
    for keyword, shape in product(keywords, ["{}={}", "{}: {}", "{}  =  '{}'", '{}:"{}"', "{}=\n{}"]):
        assert scrub_text("a " + shape.format(keyword, LONG) + " b") == f"a {GONE} b", (keyword, shape)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>x</private> b", "a [REDACTED] b"),
        ("<PRIVATE>x\ny</Private>", "[REDACTED]"),
        ("a <private>never closed", "a [REDACTED]"),
        ('<private reason="x">a</private> b', "[REDACTED] b"),
        ("<private>a <private>b</private> c</private> d", "[REDACTED] d"),
        ("< Private >a</ PRIVATE > b", "[REDACTED] b"),
        ("&lt;private&gt;a&lt;/private&gt; b", "[REDACTED] b"),
        ("<private>a</private>-<private>b</private>", "[REDACTED]-[REDACTED]"),
        ("token: ghp_" + "a" * 34, GONE),
        ("key=AKIAIOSFODNN7EXAMPLF", f"key={GONE}"),
        (f"api_key={LONG} and sk-{LONG}", f"{GONE} and {GONE}"),
        (f'{{"password":"{LONG}"}}', f'{{"password":"{GONE}"}}'),
        (f'{{\\"token\\": \\"{LONG}==\\"}}', f'{{\\"token\\": \\"{GONE}\\"}}'),
        (f'{{"cmd":"export TOKEN={LONG}"}}', f'{{"cmd":"export {GONE}"}}'),
        (f"token:{' ' * 500}{LONG}", GONE),
        (f"İİ secret={LONG} İ", f"İİ {GONE} İ"),
        (f"AKIAIOSFODNN7EXAMPLFsk-{LONG}", GONE),
    ],
)
def test_shapes_that_need_care(text: str, expected: str):
    assert scrub_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "api_key=short", "task-management-system-overview-doc",
        "the token is in /srv/mnemolog/ingest/commands/scrub.py",
        "closed by a tag that opens nothing: `<private>` and `</private>`", "closed only</private>",
        f"Bearer\u00a0{LONG}", "eyJhbGciOiJIU.eyJzdWIiOiIxMjM0", "01JD8Z4W3V7Q8XK2M5N6P7R8S9", "\x00 NUL",
    ],
)  # fmt: skip
def test_ordinary_text_comes_back_as_the_same_object(text: str):
    assert scrub_text(text) is text


def test_a_string_under_a_secret_name_is_the_value_of_an_assignment():
    value = {"password": LONG + "$!", "accessToken": [LONG], "token_count": LONG, "auth": "short", "n": {"secret": 7}}
    expected = {"password": GONE, "accessToken": [GONE], "token_count": LONG, "auth": "short", "n": {"secret": 7}}
    assert scrub(value) == expected


def test_members_of_a_private_key_and_of_a_kubernetes_secret_are_secret_by_their_place():
    key = {"kty": "EC", "crv": "P-256", "x": LONG, "d": LONG[::-1]}
    assert scrub({"keys": [key], "d": "a page"}) == {"keys": [{**key, "d": GONE}], "d": "a page"}
    secret = {"kind": "Secret", "metadata": {"name": "db"}, "data": {"host": "ZGIuaW50ZXJuYWw="}}
    assert scrub(secret) == {**secret, "data": {"host": GONE}}
    settings = {"kind": "ConfigMap", "data": {"host": "ZGIuaW50ZXJuYWw="}}
    assert scrub(settings) is settings


def test_a_clean_value_comes_back_as_the_same_object_and_a_dirty_one_is_not_changed_in_place():
    clean: dict[str, Any] = {"a": [1, 2.5, True, None, ("x", b"y")], "b": {"c": "text"}}
    assert scrub(clean) is clean
    dirty = {"a": [f"sk-{LONG}"], "b": clean}
    cleaned = scrub(dirty)
    assert cleaned == {"a": [GONE], "b": clean}
    assert cleaned["b"] is clean
    assert dirty["a"] == [f"sk-{LONG}"]


def test_keys_are_repaired_and_scrubbed_and_keep_a_value_each():
    other = LONG[::-1]
    value = {f"sk-{LONG}": 1, f"sk-{other}": 2, "a\ud83d": (f"sk-{LONG}",)}
    assert scrub(value) == {GONE: 1, f"{GONE} (2)": 2, "a\ufffd": (GONE,)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud83d", "a\ufffd"),
        ("\ude00\ud83d!", "\ufffd\ufffd!"),
        ("\ud83d\ude00", "😀"),
        ("é\x00\udfff", "é\x00\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_split_pairs_joined(text: str, expected: str):
    assert repair_text(text) == expected


@pytest.mark.parametrize("text", ["", "plain", "é😀\x00\ufffd"])
def test_text_that_needs_no_repair_comes_back_as_the_same_object(text: str):
    assert repair_text(text) is text


def nested(levels: int) -> Any:
    value: Any = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def test_nesting_is_bounded_by_an_error_that_says_so():
    assert scrub(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(NestedTooDeep) as refused:
        scrub(nested(10_000))
    assert refused.value.limit == MAX_DEPTH


@pytest.mark.parametrize(
    "unit",
    [
        "<private>", "<private ", "Bearer ", "a", "-eyJaaaaaaaaaaaa", "token=", "token   ", "sk-a", 'auth\\"', "=",
        "glpat-", "ghp_", "xoxb-", "password: ", 'password="a', "password is ", "curl -u a:", "cookie: a", "://a:",
        "-----BEGIN PRIVATE KEY-----", "LS0tLS1CRUdJTiBSU0Eg", "1p_SENTRY=A", "mysql -u ",
        "abandon ", "seed phrase abandon ", "kind: Secret\ndata:\n a: bbbb\n", "token|a\n", "cGFzc3dvcmQ9",
        "пароль ", '"d": ',
        "a1 is the ", "AKIA0123456789ABCDEF ", "Digest response=", "<input type=password ", "define('KEY', '", "密码",
    ],
)  # fmt: skip
def test_no_text_takes_more_than_linear_time(unit: str):
    text = (unit * (2**17 // len(unit))) + LONG
    began = time.thread_time()
    scrub_text(text)
    assert time.thread_time() - began < 2


PIECES: list[str] = [
    "token", "secret", "api_key", "=", ":", " ", '"', "'", "\\", "<private>", "</private>", LONG, "-", "_", ".", "é",
]  # fmt: skip
MORE_PIECES = ["\ud83d", "[", "eyJ", "sk-", "AKIA", "a", "\n", "Bearer", "xoxb-", *SECRETS.values()]
FRAGMENTS = st.sampled_from(PIECES + MORE_PIECES)
TEXTS = st.one_of(st.text(), st.lists(FRAGMENTS, max_size=12).map("".join))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
KEYS = st.one_of(st.sampled_from(["password", "text", "auth", "a"]), TEXTS)
VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4))
)


@given(VALUES)
def test_scrubbing_twice_changes_nothing_more(value: Any):
    once = scrub(value)
    assert scrub(once) == once


@given(VALUES, st.sampled_from(list(SECRETS.values())), st.sampled_from(["", "é ", "a: ", '"']))
def test_a_secret_planted_in_a_value_never_survives(value: Any, secret: str, before: str):
    planted = before + secret
    cleaned = scrub({"a": [value, {"b": (planted + " after", 1)}], planted: planted})
    assert cleaned["a"][1] == {"b": (before + GONE + " after", 1)}
    assert cleaned[before + GONE] == before + GONE


SEEDS = range(3)
REMOVED = 0.97
ALTERED = 0.005


@pytest.mark.parametrize("part", ["spellings", "later", "forms", "neighbors"])
def test_spellings_of_secrets_are_removed(part: str):
    shapes = listed(part)
    leaks = {sample.name for seed in SEEDS for sample in samples(shapes, seed) if sample.leaks(scrub_text(sample.text))}
    assert len(leaks) <= (1 - REMOVED) * len(shapes), sorted(leaks)


def test_texts_without_a_secret_stay_as_they_are():
    innocents = {shape: f"{shape}«»" for shape in listed("innocents")}
    assert len(innocents) >= 200
    altered = {
        sample.name for seed in SEEDS for sample in samples(innocents, seed) if scrub_text(sample.text) != sample.text
    }
    assert len(altered) <= ALTERED * len(innocents), sorted(altered)


def test_lists_of_common_words_are_no_phrase():
    """All of these words are in the list of BIP-39, and one in sixteen runs of them has a valid checksum."""
    words = Path(ingest.secrets.scrub.__file__).with_name("bip39.txt").read_text().split()
    lists = [" ".join(Random(seed).choices(words, k=40)) for seed in range(100)]
    for text in ("word " * 100_000, "test " * 12, "zoo " * 24, *lists):
        assert scrub_text(text) is text
