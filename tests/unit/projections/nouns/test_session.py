"""Sessions that end, fall silent and are summarised; observations that a model compressed; commits."""

from datetime import timedelta
from typing import Any

import pytest
from factories import ended, forgotten, minute, observed, place, recorded, said, started
from given import Given, given, later

from ingest.events.envelope import Recorded
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.session import SessionCommitted, SessionEnded, SessionSummarised
from projections.nouns.observation import BY_A_MODEL, observation_id
from projections.nouns.session import (
    FIRST_PROMPT_CHARS,
    OPEN_SESSIONS,
    UNSUMMARISED,
    Commit,
    commit_id,
    commits,
    session_commits,
    session_document_id,
    summary_id,
)

SESSION = session_document_id("default", "atlas", "s1")
SUMMARY = summary_id(SESSION)


def silent(n: int, since: int) -> Recorded:
    return said(n, SessionEnded(reason="idle", idle_since_ms=place(since).ms))


def asked(n: int, prompt: Any, **envelope: Any) -> Recorded:
    return recorded(ObservationRecorded(data={"prompt": prompt}), place(n), event_id=f"o{n}", **envelope)


def summarised(n: int, found: Given, **data: Any) -> Recorded:
    """A summary of the session as it is now."""
    session = found.session()
    fields: dict[str, Any] = {"title": "Leases", "narrative": "Renewed too late.", **data}
    told = SessionSummarised(observation_count=session.observation_count, forgotten_at=session.told_from, **fields)
    return said(n, told)


def forget(n: int, *events: Recorded) -> Recorded:
    names = [observation_id(event) for event in events]
    return forgotten(n, "observation", names[0], documents=names)


class TestEnding:
    def test_a_session_may_end_badly(self):
        found = given(observed(1)).when(said(2, SessionEnded(outcome="failed")))
        assert found.session().status == "failed"
        assert found.when(observed(3)).session().status == "active"

    def test_a_session_that_fell_silent_is_ended(self):
        found = given(observed(1)).when(silent(5, since=1))
        assert found.session().status == "ended"
        assert not found.store.listings[OPEN_SESSIONS]

    def test_the_end_for_silence_is_passed_over_when_something_came_meanwhile(self):
        found = given(observed(1), observed(2)).when(silent(5, since=1))
        assert (found.session().status, found.session().seen_ms) == ("active", place(2).ms)

    def test_a_session_that_is_gone_does_not_fall_silent(self):
        """The job saw it before it was forgotten."""
        found = given(observed(1), forgotten(2, "session", "s1", documents=[SESSION, observation_id(observed(1))]))
        found.when(silent(3, since=1))
        assert found.document(SESSION) is None
        found.then_replay_is_the_same()

    def test_being_ended_does_not_widen_the_span_when_it_is_for_silence(self):
        before = given(observed(1)).session().updated_ms
        assert given(observed(1)).when(silent(500, since=1)).session().updated_ms == before


class TestPrompts:
    def test_the_first_thing_a_person_asked_is_kept(self):
        session = given(observed(1), asked(2, " fix \n the  build")).when(asked(3, "and then?")).session()
        assert session.first_prompt == "fix the build"

    def test_a_long_one_is_cut(self):
        assert len(given().when(asked(1, "x" * 999)).session().first_prompt) == FIRST_PROMPT_CHARS

    @pytest.mark.parametrize("prompt", [None, 5, "", " ", ["a"]])
    def test_what_is_no_text_is_no_prompt(self, prompt: Any):
        assert given().when(asked(1, prompt)).session().first_prompt == ""

    def test_it_goes_with_any_forgotten_observation(self):
        found = given(asked(1, "a secret", user_id="u1"), observed(2)).when(forget(3, asked(1, "")))
        assert (found.session().first_prompt, found.session().user_id) == ("", "")
        found.then_replay_is_the_same()


class TestSummaries:
    def test_a_summary_is_its_sessions(self):
        found = given(observed(1, user_id="u1"), observed(2))
        found.when(summarised(3, found, decisions=["renew at a third"], model="m"))
        assert (found.summary().observation_count, found.summary().user_id) == (2, "u1")
        assert (found.session().summarised, found.summary().decisions) == (2, ["renew at a third"])

    def test_a_summary_is_no_newer_than_its_session(self):
        then = minute(-60 * 24 * 90)
        found = given(observed(1, occurred_at=then), observed(2, occurred_at=then + timedelta(minutes=5)))
        found.when(summarised(3, found))
        assert found.summary().occurred_at == then + timedelta(minutes=5)
        assert found.summary().recorded_at > then + timedelta(days=89)
        found.then_replay_is_the_same()

    def test_an_ended_session_waits_for_its_summary(self):
        found = given(observed(1), ended(2))
        assert found.store.listings[UNSUMMARISED] == {SESSION}
        found.when(summarised(3, found))
        assert not found.store.listings[UNSUMMARISED]
        found.when(observed(4), ended(5))
        assert found.store.listings[UNSUMMARISED] == {SESSION}

    def test_a_newer_summary_replaces_it(self):
        found = given(observed(1))
        found.when(summarised(2, found)).when(observed(3)).when(summarised(4, found, title="Again"))
        assert (found.summary().title, found.summary().observation_count) == ("Again", 2)
        found.then_replay_is_the_same()

    def test_it_goes_with_any_forgotten_observation(self):
        found = given(observed(1), observed(2))
        found.when(summarised(3, found)).when(forget(4, observed(1)))
        assert found.document(SUMMARY) is None
        assert found.session().summarised == 0
        assert found.erased() == [place(1), place(3)]
        found.then_replay_is_the_same()

    def test_a_summary_made_before_a_forgetting_is_void(self):
        """It may say what was forgotten meanwhile."""
        found = given(observed(1), observed(2))
        stale = summarised(4, found)
        found.when(forget(3, observed(1))).when(stale)
        assert found.document(SUMMARY) is None
        assert found.erased() == [place(1), place(4)]
        found.then_replay_is_the_same()

    def test_a_summary_of_a_session_forgotten_and_taken_up_again_is_void(self):
        found = given(observed(1))
        stale = summarised(5, found)
        found.when(forgotten(2, "session", "s1", documents=[SESSION, observation_id(observed(1))]))
        found.when(observed(3)).when(stale)
        assert found.document(SUMMARY) is None
        assert place(5) in found.erased()
        found.then_replay_is_the_same()

    def test_a_summary_of_what_is_not_there_is_void(self):
        found = given().when(said(1, SessionSummarised(title="a", narrative="b")))
        assert found.document(SUMMARY) is None
        assert found.erased() == [place(1)]
        found.then_replay_is_the_same()

    def test_a_summary_alone_may_be_forgotten(self):
        found = given(observed(1))
        found.when(summarised(2, found)).when(forgotten(3, "session", "s1", documents=[SUMMARY]))
        assert (found.document(SUMMARY), found.session().summarised) == (None, 0)
        assert found.erased() == [place(2)]
        found.then_replay_is_the_same()


class TestForgettingSessions:
    ALL = (SESSION, observation_id(observed(2)))

    @pytest.mark.parametrize("names", [ALL, ALL[::-1]], ids=["session first", "session last"])
    def test_a_forgotten_session_is_gone(self, names: tuple[str, ...]):
        found = given(started(1, title="fix it"), observed(2), ended(3))
        found.when(summarised(4, found)).when(forgotten(5, "session", "s1", documents=names))
        assert found.document(SESSION) is None
        assert found.document(SUMMARY) is None
        assert found.erased() == [place(n) for n in range(1, 5)]
        found.then_replay_is_the_same()

    def test_what_came_meanwhile_stays_in_a_session_without_a_past(self):
        """An observation that the door did not see."""
        found = given(started(1, title="fix it", cwd="/src"), observed(2), observed(3))
        session = found.when(forgotten(4, "session", "s1", documents=self.ALL)).session()
        assert (session.title, session.cwd, session.agent_id, session.observation_count) == ("", "", "", 1)
        assert (session.status, session.started_ms, session.forgotten_at) == ("active", place(4).ms, str(place(4)))
        found.then_replay_is_the_same()

    def test_what_comes_later_opens_it_anew(self):
        events = [observed(2), forgotten(4, "session", "s1", documents=self.ALL), observed(5)]
        found = given(*events)
        assert (found.session().observation_count, found.session().forgotten_at) == (1, str(place(5)))
        found.when(*events).then_nothing()
        found.then_replay_is_the_same()

    def test_applied_twice_with_what_came_later_changes_nothing(self):
        events = [observed(2), observed(3), forgotten(4, "session", "s1", documents=self.ALL), observed(5), ended(6)]
        given(*events).when(*events).then_nothing()

    def test_another_session_is_left_alone(self):
        found = given(observed(2), observed(3, session_id="s2"))
        found.when(forgotten(4, "session", "s1", documents=self.ALL))
        assert found.session("s2").observation_count == 1


def compressed(n: int, of: Recorded) -> Recorded:
    told = ObservationCompressed(
        observation=observation_id(of),
        title="Build",
        narrative="It failed.",
        facts=["exit 2"],
        files=["Makefile"],
        importance=8,
        model="m",
        prompt_version="1",
    )
    return said(n, told)


class TestCompressing:
    def test_a_models_compression_takes_the_place_of_the_rules(self):
        found = given(observed(1)).when(compressed(2, observed(1))).observation(observed(1))
        assert (found.title, found.facts, found.importance, found.model) == ("Build", ("exit 2",), 8, "m")
        assert (found.confidence, found.content, found.files) == (BY_A_MODEL, "the build failed", ("Makefile",))

    def test_it_is_erased_with_the_observation(self):
        found = given(observed(1), compressed(2, observed(1))).when(forget(3, observed(1)))
        assert found.erased() == [place(1), place(2)]
        found.then_replay_is_the_same()

    def test_that_of_a_forgotten_observation_is_erased(self):
        found = given(observed(1), forget(2, observed(1))).when(compressed(3, observed(1)))
        assert found.erased() == [place(1), place(3)]
        assert found.mark(compressed(3, observed(1))).erased
        found.then_replay_is_the_same()


def committed(n: int, sha: str = "9f1c", **fields: Any) -> Recorded:
    session_id = fields.pop("session_id", "s1")
    return said(n, SessionCommitted(commit=sha, **fields), session_id=session_id)


FIRST = committed(1, message="fix: lease", branch="main", files=["a.py"])
COMMIT = commit_id(FIRST, SessionCommitted(commit="9f1c"))


class TestCommits:
    def test_a_commit_is_linked_to_its_session(self):
        found = given().when(FIRST)
        assert found.one(COMMIT, Commit).session_ids == ["s1"]
        assert found.store.listings[session_commits("default", "s1")]

    def test_linked_again_sessions_and_files_add_up_and_newer_words_win(self):
        again = committed(2, session_id="s2", files=["b.py", "a.py"], message="fix: lease (#2)")
        found = given(FIRST).when(again, committed(3, session_id=""))
        commit = found.one(COMMIT, Commit)
        assert (commit.session_ids, commit.files) == (["s1", "s2"], ["a.py", "b.py"])
        assert (commit.message, commit.branch, commit.linked_ms) == ("fix: lease (#2)", "main", place(1).ms)

    def test_the_same_hash_in_two_projects_is_two_commits(self):
        other = said(2, SessionCommitted(commit="9f1c"), project="hermes")
        found = given(FIRST).when(other)
        assert len([document for document in found.store.documents.values() if isinstance(document, Commit)]) == 2

    def test_a_forgotten_commit_is_gone_with_every_link(self):
        found = given(FIRST, committed(2)).when(forgotten(3, "commit", COMMIT))
        assert found.document(COMMIT) is None
        assert found.erased() == [place(1), place(2)]
        assert not found.store.listings[commits("default")]
        found.when(later(FIRST, 4))
        assert found.document(COMMIT) is None
        found.then_replay_is_the_same()
