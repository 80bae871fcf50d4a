"""What may be derived from: sentences that somebody said."""

import pytest

from projections.text.claims import (
    Claim,
    claim_groups,
    claims_in,
    contradictions,
    is_claim,
    is_figure,
    is_sentence,
    replaced,
)


@pytest.mark.parametrize(
    "text",
    [
        "Redis restarts break the pool.",
        "A pool needs retries.",
        "Always rotate before the deploy window.",
        "TimeoutError: the connection pool of the checkout service is exhausted.",
        "Never run job1 on host2.",
        "Der Build braucht das neue Node und nicht das alte.",
        "这个服务必须重启才能生效",
    ],
)
def test_what_somebody_said_is_a_sentence(text: str):
    assert is_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Edit `src/pool.py`.",
        "Bash `make` failed: no rule to make target",
        "run_terminal_cmd `npm run build`: error during build: Could not resolve './Header'.",
        "DEN to MIA (Flight Number: HAT130)",
        "src/pool.py",
        "Authentication module overview document",
        "return self.value + other",
        "from z3 import *",
        "298: # May be Pixel Data, Float Pixel Data",
        "--- a/pydicom/numpy_handler.py",
        "'BitsAllocated', 'Rows', 'Columns', 'SamplesPerPixel'",
        '"Unable to convert the pixel data as the following required "',
        "**Payment Method:** Credit Card ending in 5018",
        "Departure: 07:00 PM EST on May 20",
        "Arrival: 03:00 AM EST (next day)",
        "name: shop, status: is open, count: 3",
        "required_elements.append('PixelRepresentation') is done",
        "The steps that are needed are these:",
    ],
)
def test_code_output_labels_and_bare_calls_are_no_sentences(text: str):
    assert not is_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        "Next, I will open the file.",
        "My order is late.",
        "Let's run the tests again.",
        "Before submitting the changes, it's important to run the script again.",
    ],
)
def test_what_holds_for_a_moment_or_a_speaker_is_no_claim(text: str):
    assert is_sentence(text)
    assert not is_claim(text)


@pytest.mark.parametrize(
    "text",
    [
        "It appears that there was another fault.",
        "This should allow the handling of such data.",
        "Reservation IFOYYZ: This is a basic economy ticket.",
        "Never set it above the limit of the database.",
        "The policies are quite strict in this regard.",
        "We're currently solving the following challenge.",
        "The output indicates that the script ran to its end.",
        "The second line of the upload code is " + "very " * 80 + "long.",
    ],
)
def test_what_leans_on_another_sentence_or_on_the_moment_is_not_taken_out_of_its_text(text: str):
    assert claims_in(text) == []


def test_a_claim_is_taken_out_of_its_text_without_who_says_it():
    said = "thought: The script reads the flag. | command: cat flag.txt\nUser: We deploy on Fridays only."
    assert claims_in(said) == ["The script reads the flag.", "We deploy on Fridays only."]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The deploy token expires every night.", "The deploy token expires each night.", True),
        ("Redis loses entries on a restart.", "On a restart redis loses entries.", True),
        ("The backup takes two hours.", "The backup takes three hours.", False),
        ("The lease must be shared.", "The lease must not be shared.", False),
        ("The pool size is 50.", "The pool size is 60.", False),
        ("The backup takes long on Friday.", "The backup takes long on Monday.", False),
        ("The backup takes long.", "The backup takes long on Monday.", True),
    ],
)
def test_two_texts_claim_the_same_unless_one_denies_or_names_another_thing(one: str, other: str, same: bool):
    assert Claim.of(one).is_said_by(Claim.of(other), 0.6) is same
    assert (len(claim_groups([one, other], 0.6)) == 1) is same


@pytest.mark.parametrize(
    ("text", "other", "within"),
    [
        ("Parts are 16 MiB each.", "Big uploads fail. Parts are 16 MiB each.", True),
        ("Parts are 16 MiB each.", "Big uploads fail. Parts are 8 MiB each.", False),
        ("An admin may delete invoices of the billing.", "An admin may create invoices of the billing.", False),
        ("Nightly backups are not encrypted.", "Nightly backups are encrypted.", False),
        ("Nightly backups are encrypted.", "Nightly backups are encrypted, staging ones are not.", True),
    ],
)  # fmt: skip
def test_a_claim_is_within_a_text_that_says_all_of_it(text: str, other: str, within: bool):
    assert Claim.of(text).is_within(Claim.of(other)) is within


DEPLOYS = "We deploy the billing service on Tuesdays."


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("On Tuesdays we deploy the billing service.", True),
        ("We deploy the billing service on Tuesdays, since the vendor answers then.", True),
        ("We deploy the billing service.", True),
        ("We deploy the billing service on Fridays.", False),
        ("We do not deploy the billing service on Tuesdays.", False),
        ("We deploy the search service on Tuesdays.", False),
    ],
)
def test_text_in_another_order_or_with_another_clause_repeats_a_claim(text: str, repeats: bool):
    assert Claim.of(text).repeats(Claim.of(DEPLOYS)) is repeats


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("We go with Kafka for the events.", "We use Postgres instead of Kafka."),
        ("We decided on Kafka for the event bus.", "We decided to use NATS for the event bus."),
        ("We decided on Kafka for the event bus.", "Kafka is dropped; NATS carries the events now."),
        ("Decision: retries are capped at 3.", "Decision: retries are capped at 5."),
        ("We agreed to deploy on Tuesdays.", "From now on we deploy on Fridays."),
        ("Retention is 14 days.", "Retention is 30 days now."),
    ],
)
def test_later_statement_with_another_value_replaces_the_earlier_one(old: str, new: str):
    assert replaced([old, "The menu is blue.", new]) == {old}
    assert replaced([old, new, old]) == ({new} if replaced([new, old]) else set())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("We decided to keep the backup on the second volume.", "The backup goes to the second volume now."),
        ("We decided to keep sessions in Redis.", "We decided to cache results in the gateway."),
        ("The redis host 0 must be restarted by hand.", "The redis host 3 is switched off."),
        ("We decided on Kafka for the event bus.", "The event bus is down."),
    ],
)  # fmt: skip
def test_repeats_and_other_subjects_replace_nothing(old: str, new: str):
    assert replaced([old, new]) == set()


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("The nightly export wrote 41,200 rows in 12 minutes.", True),
        ("On 12 March 118 references were unmatched.", True),
        ("All 41 tests pass.", True),
        ("The p95 is 240 ms this week.", True),
        ("Sessions end after 660 s.", False),
        ("The pool is limited to 20 connections.", False),
        ("We decided that backups were kept for 30 days.", False),
        ("The export of `day_12` was lost.", False),
    ],
)
def test_number_of_the_past_is_a_figure_unless_it_was_decided(text: str, is_one: bool):
    assert is_figure(text) is is_one


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The API listens on port 8080.", "The API listens on port 9090."),
        ("We deploy on Tuesdays.", "We deploy on Fridays."),
        ("The backup is encrypted.", "The backup is not encrypted."),
        ("Retention is 14 days.", "It was decided last week. Retention is 30 days."),
        ("The vendor allows 100 requests per minute.", "The vendor allows 60 requests per minute, since June."),
        ("Die Wartung ist immer am Dienstag.", "Die Wartung ist immer am Freitag."),
    ],
)
def test_texts_that_differ_in_a_value_or_a_denial_contradict(old: str, new: str):
    assert contradictions([old, "The menu is blue.", new]) == [(0, 2)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The API listens on port 8080.", "The API listens on port 8080, behind nginx."),
        ("The checkout service number 1 listens on port 8001.", "The checkout service number 2 listens on port 8002."),
        ("The pool of worker A has size 5.", "The pool of worker B has size 5."),
        ("Ana owns the billing service.", "Bob owns the billing service."),
        ("All 41 tests pass.", "All 42 tests pass."),
        ("The worker retries requests.", "The worker retries connections."),
        ("The backup is encrypted.", "The nightly export is not encrypted."),
        ("My order is 17.", "My order is 18."),
    ],
)
def test_texts_about_other_subjects_moments_or_lists_do_not_contradict(old: str, new: str):
    assert contradictions([old, new]) == []


def test_text_does_not_contradict_itself():
    assert contradictions(["Retention is 14 days. For audits, retention is 90 days. Retention is 30 days."]) == []


def test_comparing_many_claims_of_one_subject_is_bounded():
    texts = [f"The API listens on port {number}." for number in range(200)]
    assert max(newer - older for older, newer in contradictions(texts)) == 49
    assert (
        contradictions(["Retention is 14 days. " * 30 + "The backup is encrypted.", "The backup is not encrypted."])
        == []
    )
