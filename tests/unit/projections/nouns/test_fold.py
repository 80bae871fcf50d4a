"""The documents projection, event by event: what was there, what happened, what is there now."""

import json
from pathlib import Path
from typing import Any

import pytest
from factories import (
    AGENT,
    NOW,
    ended,
    forgotten,
    learned,
    minute,
    observed,
    place,
    recorded,
    remembered,
    started,
)
from folding import contents, folded, one_by_one
from given import Given, given, id_of, later
from msgspec.structs import fields, replace

from ingest.events.envelope import Envelope, EventData, Recorded
from ingest.events.subject import SubjectForgotten
from ingest.ids import DocumentId
from ingest.kinds import SubjectKind
from ingest.log.position import Position
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import EVENT_TYPES
from ingest.platform.clock import to_ms
from projections.nouns.fold import candidate_listings, documents_of
from projections.nouns.lesson import Lesson
from projections.nouns.memory import BY_WORDS, memory_id, probe_listings
from projections.nouns.observation import observation_id
from projections.nouns.tombstone import Tombstone
from projections.text.accounts import headline

TEA = "ada likes green tea in the morning with lemon and honey"
TEA_AGAIN = "Ada likes green tea in the mornings, with lemon and honey!"
TEA_WITH_SUGAR = "ada likes green tea in the morning with lemon and sugar"
COFFEE = "bob drinks black coffee after lunch every single weekday"


ANY_EVENT = pytest.mark.parametrize(
    "event",
    [observed(1), remembered(1, TEA), learned(1), started(1), ended(1), forgotten(1, "observation", "obs_x")],
    ids=lambda event: event.envelope.type,
)

OF_EACH_NOUN = pytest.mark.parametrize(
    "event", [observed(1), remembered(1, TEA), learned(1)], ids=["obs", "mem", "lsn"]
)


class TestRepeats:
    @ANY_EVENT
    def test_a_repeat_changes_nothing(self, event: Recorded):
        given(event).when(later(event, 9)).then_nothing()

    @OF_EACH_NOUN
    def test_a_late_repeat_gives_up_its_place_in_the_log(self, event: Recorded):
        """It says nothing new, and would still say it after the first one was forgotten."""
        assert list(given(event).when(later(event, 9)).changes.erased) == [place(9)]

    @ANY_EVENT
    def test_a_repeat_inside_one_batch_changes_nothing_more(self, event: Recorded):
        assert contents(folded([event, later(event, 9)])) == contents(folded([event]))

    def test_a_batch_applied_again_changes_nothing(self):
        batch = [started(0), observed(1), remembered(2, TEA), remembered(3, TEA_AGAIN), learned(4), ended(5)]
        Given(batch).when(*batch).then_nothing()

    def test_every_type_of_event_is_folded(self):
        """An event that no rule folds would stop its partition."""
        events = [Recorded(place(1), observed(1).envelope, empty(cls)) for cls in EVENT_TYPES.values()]
        assert all(documents_of([event]) for event in events if not isinstance(event.data, SubjectForgotten))


def empty(cls: type[EventData]) -> EventData:
    """Data of a type, as little as it takes."""
    wanted = {field.name: VALUES.get(field.type, "a") for field in fields(cls) if field.required}
    return cls(**wanted)


VALUES: dict[Any, Any] = {list[str]: ["a"], float: 0.5}


class TestObservations:
    def test_an_observation_opens_its_session(self):
        found = given().when(observed(1, "the build failed"))
        assert found.observation(observed(1)).content == "the build failed"
        session = found.session()
        assert (session.observation_count, session.status, session.agent_id) == (1, "active", AGENT)
        assert session.started_ms == session.updated_ms == to_ms(minute(1))

    def test_each_observation_is_counted_once(self):
        found = given(observed(1), observed(2)).when(later(observed(1), 3), observed(4), later(observed(4), 5))
        assert found.session().observation_count == 3

    def test_equal_event_ids_in_two_sessions_are_two_observations(self):
        one, other = observed(1, event_id="e"), observed(2, event_id="e", session_id="s2")
        found = given().when(one, other)
        assert found.observation(one).session_id == "s1"
        assert found.observation(other).session_id == "s2"
        assert (found.session("s1").observation_count, found.session("s2").observation_count) == (1, 1)

    def test_a_session_spans_the_times_its_events_claim(self):
        """Also when they arrive late: the order of arrival does not matter."""
        found = given(observed(5)).when(observed(6, occurred_at=minute(-30)), observed(7, occurred_at=minute(2)))
        assert (found.session().started_ms, found.session().updated_ms) == (to_ms(minute(-30)), to_ms(minute(5)))

    def test_an_observation_knows_where_it_stands(self):
        found = given().when(observed(3)).observation(observed(3))
        assert (found.position, found.recorded_at) == (str(place(3)), place(3).recorded_at)

    def test_that_of_a_tool_call_has_its_headline_and_any_other_has_none(self):
        call = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_output": "cc: fatal error: no input"}
        event = recorded(ObservationRecorded(kind="post_tool_use", data=call), place(1), event_id="o1")
        found = given().when(event).observation(event)
        assert found.call_headline == headline(found) == "Bash `make`: cc: fatal error: no input"
        assert headline(replace(found, call_headline="")) == found.call_headline  # of an earlier release
        assert given().when(observed(2, "the build failed")).observation(observed(2)).call_headline == ""


class TestSessions:
    def test_a_session_starts_with_what_is_said_of_it(self):
        session = given().when(started(1, cwd="/src", title="fix it")).session()
        assert (session.cwd, session.title, session.status, session.observation_count) == (
            "/src",
            "fix it",
            "active",
            0,
        )

    def test_a_session_ends(self):
        session = given(started(1)).when(ended(5)).session()
        assert (session.status, session.ended_ms, session.started_ms) == ("ended", to_ms(minute(5)), to_ms(minute(1)))

    def test_an_observation_reopens_an_ended_session(self):
        session = given(observed(1), ended(2)).when(observed(3)).session()
        assert (session.status, session.ended_ms, session.observation_count) == ("active", 0, 2)

    def test_a_session_taken_up_again_is_active_and_keeps_its_name(self):
        session = given(started(1, cwd="/src", title="fix it"), ended(2)).when(started(3)).session()
        assert (session.status, session.ended_ms, session.cwd, session.title) == ("active", 0, "/src", "fix it")

    def test_a_repeated_end_does_not_end_a_session_that_went_on(self):
        """A spool sends the end again, an hour late; the session has observations since."""
        session = given(observed(1), ended(2), observed(3)).when(later(ended(2), 4)).session()
        assert session.status == "active"

    def test_equal_event_ids_end_both_of_two_sessions(self):
        """Event ids are the caller's; two sessions of one project may both call theirs `end`."""
        found = given(observed(1), observed(2, session_id="s2"))
        found.when(ended(3, event_id="end"), ended(4, event_id="end", session_id="s2"))
        assert (found.session("s1").status, found.session("s2").status) == ("ended", "ended")


ONE_WORD = json.loads((Path(__file__).parents[3] / "support" / "one_word.json").read_text())
"""In five languages: `distinct` pairs of facts that differ in one word, and pairs that state the `same`."""


def words(count: int) -> list[str]:
    """Distinct tokens without a number, all counted by the similarity."""
    return [f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(count)]


def by_words(memory: Recorded) -> Recorded:
    """The same memory, recorded through agentmemory's API."""
    return memory._replace(envelope=replace(memory.envelope, source=BY_WORDS))


class TestSuperseding:
    def test_a_memory_that_states_the_same_supersedes(self):
        old, new = remembered(1, TEA), remembered(2, TEA_AGAIN)
        found = given(old).when(new)
        assert (found.memory(new).version, found.memory(new).parent_id) == (2, memory_id(old))
        assert (found.memory(new).is_latest, found.memory(old).is_latest) == (True, False)
        assert found.memory(old).superseded_at == place(2).recorded_at

    def test_a_memory_that_says_something_else_does_not(self):
        found = given(remembered(1, TEA)).when(remembered(2, COFFEE))
        assert (found.memory(remembered(2, "")).version, found.memory(remembered(1, "")).is_latest) == (1, True)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (TEA, TEA_WITH_SUGAR),
            ("Alice is allergic to peanuts and carries a pen", "Alicia is allergic to peanuts and carries a pen"),
            ("build 4711 of the shop passed all of its tests", "build 4712 of the shop passed all of its tests"),
            ("the backup of the shop is enabled on all days", "the backup of the shop is not enabled on all days"),
        ],
    )
    def test_a_memory_of_nearly_the_same_words_does_not(self, old: str, new: str):
        found = given(remembered(1, old)).when(remembered(2, new))
        assert (found.memory(remembered(2, "")).version, found.memory(remembered(1, "")).is_latest) == (1, True)

    @pytest.mark.parametrize(
        ("old", "new", "supersedes"),
        [("ada", "ada", True), ("", "ada", True), ("bob", "ada", False), ("ada", "", False), ("", "", True)],
    )
    @pytest.mark.parametrize("source", ["native", BY_WORDS])
    def test_only_a_memory_of_the_same_agent_or_of_none_is_superseded(
        self, old: str, new: str, supersedes: bool, source: str
    ):
        first, second = (
            recorded(MemoryRecorded(content=TEA), place(n), event_id=f"m{n}", agent_id=agent, source=source)
            for n, agent in ((1, old), (2, new))
        )
        assert given(first).when(second).memory(first).is_latest is not supersedes

    @pytest.mark.parametrize(
        ("old", "new", "supersedes"),
        [(None, None, True), (None, 5, False), (5, None, True), (5, 4, False), (5, 5, True), (4, 5, True)],
    )
    def test_what_expires_supersedes_nothing_that_lasts_longer(
        self, old: float | None, new: float | None, supersedes: bool
    ):
        first, second = (
            remembered(n, TEA, forget_after=None if at is None else minute(at)) for n, at in ((1, old), (2, new))
        )
        assert given(first).when(second).memory(first).is_latest is not supersedes

    @pytest.mark.parametrize(("relation", "supersedes"), [("distinct", False), ("same", True)])
    def test_by_words_a_memory_with_another_word_is_another_fact(self, relation: str, supersedes: bool):
        for _, one, other in ONE_WORD[relation]:
            old, new = by_words(remembered(1, one)), by_words(remembered(2, other))
            assert given(old).when(new).memory(old).is_latest is not supersedes, (one, other)

    def test_by_words_names_in_another_order_make_another_fact(self):
        old, new = (
            by_words(remembered(n, f"{names} every month")) for n, names in ((1, "Ada pays Bob"), (2, "Bob pays Ada"))
        )
        assert given(old).when(new).memory(old).is_latest

    def test_superseding_works_inside_one_batch_as_across_batches(self):
        chain = [remembered(1, TEA), remembered(2, TEA_AGAIN), remembered(3, TEA)]
        found = given().when(*chain)
        assert [found.memory(each).version for each in chain] == [1, 2, 3]
        assert [found.memory(each).is_latest for each in chain] == [False, False, True]
        assert found.memory(chain[2]).parent_id == memory_id(chain[1])
        assert contents(found.store) == contents(one_by_one(chain))

    def test_by_words_the_most_similar_memory_is_superseded(self):
        shared = words(20)
        near, nearer = (
            remembered(1, ", ".join([*shared[:3], " ".join(shared[:2:-1])])),
            remembered(2, " ".join(shared[::-1])),
        )
        new = by_words(remembered(3, " ".join(shared)))
        found = given(near, nearer)
        assert found.memory(nearer).version == 1, "natively the order counts"
        found.when(new)
        assert (found.memory(near).is_latest, found.memory(nearer).is_latest) == (True, False)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (Position(1000, 0), Position(1000, 1)),
            (Position(1000, 9), Position(1000, 10)),
            (Position(1000, 10), Position(1001, 0)),
        ],
        ids=str,
    )
    def test_by_words_of_equally_similar_memories_the_newest_is_superseded(self, first: Position, second: Position):
        """Newest by position, an ordered value: 1000-10 is before 1001-0."""
        shared = words(12)
        one = remembered(1, " ".join(shared[::-1]))._replace(position=first)
        two = remembered(2, " ".join(shared[3:] + shared[:3]))._replace(position=second)
        found = given(one, two)
        assert found.memory(two).version == 1
        found.when(by_words(remembered(3, " ".join(shared))))
        assert (found.memory(one).is_latest, found.memory(two).is_latest) == (True, False)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ({"visibility": "public"}, {"visibility": "private"}),
            ({"visibility": "private"}, {"visibility": "public"}),
            ({"visibility": "private", "owner": "ada"}, {"visibility": "private", "owner": "bob"}),
            (
                {"visibility": "shared", "shared_with": ["bob"]},
                {"visibility": "shared", "shared_with": ["bob", "eve"]},
            ),
        ],
    )
    def test_memories_of_other_readers_are_left_alone(self, old: dict[str, Any], new: dict[str, Any]):
        first, second = remembered(1, TEA, **old), remembered(2, TEA, **new)
        found = given(first).when(second)
        assert (found.memory(first).is_latest, found.memory(second).version) == (True, 1)

    def test_another_projects_memory_is_left_alone(self):
        first, second = remembered(1, TEA), remembered(2, TEA)
        second = second._replace(envelope=_with(second, project="hermes"))
        found = given(first).when(second)
        assert (found.memory(first).is_latest, found.memory(second).version) == (True, 1)

    def test_a_superseded_memory_stays_listed_but_is_no_candidate(self):
        old, new = remembered(1, TEA), remembered(2, TEA_AGAIN)
        found = given(old).when(new)
        assert found.is_listed(memory_id(old))
        probes = probe_listings(found.memory(old), by_words=True)
        assert all(memory_id(old) not in found.store.listings.get(name, ()) for name in probes)

    def test_a_memory_is_looked_for_where_similar_ones_are(self):
        assert candidate_listings([remembered(1, TEA)]) & candidate_listings([remembered(2, TEA_AGAIN)])
        assert candidate_listings([observed(1), learned(2), started(3)]) == set()

    def test_memories_of_nothing_but_short_words_supersede_only_when_equal(self):
        found = given(remembered(1, "a b c")).when(remembered(2, "a b d"), remembered(3, "a b c"))
        assert found.memory(remembered(1, "")).is_latest is False
        assert found.memory(remembered(2, "")).is_latest is True


class TestLessons:
    def test_a_lesson_is_as_sure_as_it_was_said(self):
        lesson = given().when(learned(1, confidence=0.6, context="git", tags=["a", "b"])).lesson(learned(1))
        assert (lesson.confidence, lesson.reinforcements, lesson.tag_list) == (0.6, 0, ["a", "b"])

    def test_said_again_a_lesson_is_a_tenth_of_the_missing_part_stronger(self):
        lesson = given(learned(1, confidence=0.5)).when(learned(2)).lesson(learned(1))
        assert lesson.confidence == pytest.approx(0.55)
        assert (lesson.reinforcements, lesson.reinforced_ms, lesson.recorded_ms) == (1, place(2).ms, place(1).ms)

    def test_one_event_id_strengthens_once(self):
        found = given(learned(1), learned(2)).when(later(learned(1), 3), later(learned(2), 4))
        found.then_nothing()
        assert found.lesson(learned(1)).reinforcements == 1

    def test_case_and_blanks_do_not_make_another_lesson(self):
        lesson = (
            given(learned(1, "Rebase first")).when(learned(2, " rebase FIRST\n")).lesson(learned(1, "rebase first"))
        )
        assert (lesson.content, lesson.reinforcements) == ("Rebase first", 1)

    def test_a_lesson_never_becomes_surer_than_sure(self):
        lesson = given().when(*(learned(n, confidence=1.0) for n in range(1, 20))).lesson(learned(1))
        assert lesson.confidence == 1.0

    def test_a_context_said_later_is_added_and_never_replaced(self):
        found = given(learned(1)).when(learned(2, context="git"), learned(3, context="svn"))
        assert found.lesson(learned(1)).context == "git"


class TestForgetting:
    def test_a_forgotten_observation_leaves_a_tombstone_and_its_payload_is_erased(self):
        event = observed(1)
        name = observation_id(event)
        found = given(event, observed(2)).when(forgotten(3, "observation", name))
        assert found.document(name) == Tombstone(id=name, position=str(place(3)))
        assert list(found.changes.erased) == [place(1)]
        assert not found.is_listed(name)
        assert found.session().observation_count == 1

    def test_a_forgotten_memory_leaves_a_tombstone_and_its_payload_is_erased(self):
        event = remembered(1, TEA)
        found = given(event).when(forgotten(2, "memory", memory_id(event)))
        assert found.document(memory_id(event)) == Tombstone(id=memory_id(event), position=str(place(2)), author=AGENT)
        assert list(found.changes.erased) == [place(1)]
        assert not found.is_listed(memory_id(event))

    def test_a_forgotten_lesson_is_gone_and_its_payload_is_erased(self):
        found = given(learned(1)).when(forgotten(2, "lesson", id_of(learned(1))))
        assert not isinstance(found.document(id_of(learned(1))), Lesson)
        assert list(found.changes.erased) == [place(1)]
        assert not found.is_listed(id_of(learned(1)))

    def test_forgetting_a_lesson_erases_every_event_that_said_it(self):
        """Each of them holds the text that is to be forgotten."""
        found = given(learned(1), learned(2), learned(3)).when(forgotten(4, "lesson", id_of(learned(1))))
        assert sorted(found.store.erased) == [place(1), place(2), place(3)]

    @OF_EACH_NOUN
    def test_a_late_repeat_of_what_is_forgotten_stays_forgotten_and_is_erased(self, event: Recorded):
        """Whatever a spool sends again after it was forgotten must not stay readable in the log."""
        name, kind = _subject(event)
        found = given(event, forgotten(2, kind, name))
        before = contents(found.store)
        found.when(later(event, 3))
        assert contents(found.store) == before
        assert place(3) in found.store.erased

    @OF_EACH_NOUN
    def test_forgetting_erases_the_payloads_of_repeats_as_well(self, event: Recorded):
        """A repeat behind the dedup window is in the log twice, and has to go twice."""
        name, kind = _subject(event)
        found = given(event, later(event, 2)).when(forgotten(3, kind, name))
        assert sorted(found.store.erased) == [place(1), place(2)]

    def test_a_lesson_said_again_after_it_was_forgotten_is_new(self):
        """Somebody learned it again, in an event of its own: it starts over."""
        found = given(learned(1, confidence=0.9), learned(2), forgotten(3, "lesson", id_of(learned(1))))
        lesson = found.when(learned(4, confidence=0.3)).lesson(learned(1))
        assert (lesson.confidence, lesson.reinforcements, lesson.position) == (0.3, 0, str(place(4)))

    @OF_EACH_NOUN
    def test_forgetting_twice_changes_nothing_more(self, event: Recorded):
        name, kind = _subject(event)
        found = given(event, forgotten(2, kind, name))
        found.when(forgotten(3, kind, name)).then_nothing()

    def test_what_was_never_there_is_kept_from_coming(self):
        """The tombstone may overtake its subject: an observation in a spool, forgotten before it arrives."""
        event = observed(2)
        found = given(forgotten(1, "observation", observation_id(event))).when(event)
        assert isinstance(found.document(observation_id(event)), Tombstone)
        assert place(2) in found.store.erased

    def test_a_session_keeps_the_span_of_what_was_forgotten(self):
        found = given(observed(1), observed(5), observed(9))
        name = observation_id(observed(9))
        session = found.when(forgotten(10, "observation", name)).session()
        assert (session.started_ms, session.updated_ms) == (to_ms(minute(1)), to_ms(minute(9)))

    def test_forgetting_a_memory_inside_the_batch_that_said_it_is_as_good(self):
        event = remembered(1, TEA)
        found = given().when(event, forgotten(2, "memory", memory_id(event)), remembered(3, TEA_AGAIN))
        assert list(found.changes.erased) == [place(1)]
        assert (found.memory(remembered(3, "")).version, found.memory(remembered(3, "")).parent_id) == (1, "")

    def test_the_time_a_tombstone_was_written_does_not_widen_the_session(self):
        name = observation_id(observed(1))
        session = given(observed(1)).when(forgotten(500, "observation", name)).session()
        assert session.updated_ms == to_ms(minute(1))
        assert session.started_ms == to_ms(minute(1)) > to_ms(NOW)


def _subject(event: Recorded) -> tuple[DocumentId, SubjectKind]:
    match event.envelope.type:
        case "observation.recorded":
            return observation_id(event), "observation"
        case "memory.recorded":
            return memory_id(event), "memory"
        case _:
            return id_of(event), "lesson"


def _with(event: Recorded, **changes: str) -> Envelope:
    return replace(event.envelope, **changes)
