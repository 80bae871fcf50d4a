"""Profiles of projects: what they tell, how long they are kept, and whom they tell what."""

import pytest
from desk import ADA, ALONE, BOB, STRANGER, Desk

from ingest.commands.decide import ChangeVisibility
from projections.queries import profiles as profiles_module
from projections.queries.profiles import ProjectProfiles


@pytest.fixture
def profiles(desk: Desk) -> ProjectProfiles:
    return ProjectProfiles(desk.replica, desk.documents)


async def test_a_project_is_told_by_its_sessions_and_preferences(desk: Desk, profiles: ProjectProfiles):
    for path in ("src/tea.py", "src/tea.py", "src/pot.py"):
        await desk.edit(path)
    await desk.edit("src/other.py", project="hermes")
    await desk.remember("prefers tabs", tags=["preference"])
    await desk.remember("prefers tea", project="", user_id="u1")
    await desk.remember("the kettle leaks")
    await desk.settle()
    found, cached = await profiles.of(ADA, "atlas")
    assert found is not None
    assert not cached
    assert (found.session_count, found.total_observations) == (1, 3)
    assert found.files == [("src/tea.py", 2), ("src/pot.py", 1)]
    assert found.preferences == ["prefers tabs"]
    of_user, _ = await profiles.of(ADA, "atlas", "u1")
    assert of_user is not None
    assert of_user.preferences == ["prefers tea", "prefers tabs"]


async def test_an_unknown_project_has_none(desk: Desk, profiles: ProjectProfiles):
    await desk.remember("prefers tabs", project="", tags=["preference"])
    await desk.settle()
    assert await profiles.of(ADA, "nowhere") == (None, False)
    assert await profiles.of(ADA, "nowhere") == (None, False)


async def test_the_second_answer_is_the_first_until_it_is_refreshed_or_old(
    desk: Desk, profiles: ProjectProfiles, monkeypatch: pytest.MonkeyPatch
):
    await desk.edit("a.py")
    await desk.settle()
    first, _ = await profiles.of(ADA, "atlas")
    await desk.edit("b.py")
    await desk.settle()
    assert await profiles.of(BOB, "atlas") == (first, True)
    fresh, cached = await profiles.of(ADA, "atlas", refresh=True)
    assert fresh is not None
    assert (len(fresh.files), cached) == (2, False)
    monkeypatch.setattr(profiles_module, "KEEP_S", 0.0)
    await profiles.of(ADA, "atlas", refresh=True)
    assert (await profiles.of(ADA, "atlas"))[1] is False


async def test_only_so_many_are_kept(desk: Desk, profiles: ProjectProfiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiles_module, "KEPT", 2)
    for name in "abc":
        await desk.edit(f"{name}.py", project=name)
    await desk.settle()
    for name in "abc":
        await profiles.of(ADA, name)
    assert [(await profiles.of(ADA, name))[1] for name in "cba"] == [True, True, False]


async def test_what_was_forgotten_is_told_no_more(desk: Desk, profiles: ProjectProfiles):
    await desk.edit("a.py")
    gone = await desk.edit("secret.py")
    await desk.settle()
    await profiles.of(ADA, "atlas")
    await desk.forget("observation", gone, session_id="s1")
    found, cached = await profiles.of(ADA, "atlas")
    assert found is not None
    assert not cached
    assert found.files == [("a.py", 1)]


async def test_a_preference_that_became_private_is_told_no_more(desk: Desk, profiles: ProjectProfiles):
    await desk.edit("a.py")
    name = await desk.remember("prefers tabs", tags=["preference"])
    private = await desk.remember("prefers secrets", tags=["preference"], visibility="private")
    await desk.settle()
    found, _ = await profiles.of(ADA, "atlas")
    assert found is not None
    assert found.preferences == ["prefers tabs"], f"{private} is ada's own, but the profile is everybody's"
    await desk.say(ChangeVisibility(memory=name, visibility="private", project="atlas"))
    await desk.settle()
    found, cached = await profiles.of(ADA, "atlas")
    assert found is not None
    assert not cached
    assert found.preferences == []


async def test_isolated_readers_get_a_profile_of_their_own_and_other_tenants_none(
    desk: Desk, profiles: ProjectProfiles
):
    await desk.edit("ada.py")
    await desk.edit("bob.py", agent_id="bob", session_id="s2")
    await desk.remember("ada prefers tabs", tags=["preference"])
    await desk.settle()
    await profiles.of(ADA, "atlas")
    found, cached = await profiles.of(ALONE, "atlas")
    assert found is not None
    assert not cached
    assert (found.files, found.preferences, found.session_count) == ([("bob.py", 1)], [], 1)
    assert await profiles.of(STRANGER, "atlas") == (None, False)
