"""The viewer over weeks of a fleet's work: 5,000 observations and more of several projects and agents, one session of
3,000 turns among them. Every tab, what can be changed in it, how it follows, whom it lets in. Needs chromium."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from chromium import Page
from commands import ROOT, run
from fleet_work import LONG_SESSION, PROJECTS, commands, export
from waiting import wait_until

from tests.acceptance.parking import PARTITIONS, dream, newer_worker, parked
from tests.acceptance.running import running
from tests.acceptance.viewing import Shown, needs_chromium, page, shown_tab

__all__ = ["page"]

SHOP = PROJECTS[0].name
AXE = ROOT / "tests/node/node_modules/axe-core/axe.min.js"
SCREENSHOTS = ROOT / "build/screenshots"
ADDRESSES = {
    "diary": "/diary",
    "search": f"/search?project={SHOP}&q=why+does+the+ledger+round+differently",
    "memories": f"/memories?project={SHOP}",
    "memory": "/memories/{memory}",
    "sessions": "/sessions",
    "session": f"/sessions/{SHOP}-004?project={SHOP}",
    "dashboard": "/dashboard",
    "lessons": f"/lessons?project={SHOP}",
    "lesson": "/lessons/{lesson}",
    "slots": f"/slots?project={SHOP}",
    "actions": f"/actions?project={SHOP}",
    "timeline": f"/timeline?project={SHOP}",
    "replay": f"/replay/{LONG_SESSION}?project={SHOP}&q=why+does+the+ledger+fail",
    "graph": f"/graph?project={SHOP}",
    "pipeline": "/pipeline",
    "choice": "/memories",
    "nothing": "/memories?project=nowhere",
}
"""What is looked at: every tab, documents of their own, and places with nothing to show."""
FINDINGS = """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(' ')}`))"""
pytestmark = needs_chromium


@pytest.fixture(scope="module")
def said() -> list[dict[str, Any]]:
    """What the fleet said, in the order of time."""
    return commands(datetime.now(UTC) - timedelta(minutes=5))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, said: list[dict[str, Any]]) -> Iterator[Shown]:
    """The server that has all of it; tests that change something keep to what they wrote themselves."""
    with running(tmp_path_factory.mktemp("cache"), embedder="none", partitions=PARTITIONS, secret=None) as server:
        body = b"".join(export(said))
        answer = httpx.post(f"{server.url}/v1/admin/import", content=body, timeout=60, trust_env=False)
        assert answer.json()["events"] == len(said)
        yield Shown(server, "")


@pytest.fixture
async def settled(fleet: Shown) -> Shown:
    """The same when everything is applied."""

    async def applied() -> bool:
        return fleet.get("/readyz").json()["lag"] == {}

    await wait_until(applied, 60)
    return fleet


def test_the_fleet_says_more_than_five_thousand_things(said: list[dict[str, Any]]):
    observed = [one for one in said if one["type"] == "observe"]
    assert len(observed) > 5_000
    assert sum(one["session_id"] == LONG_SESSION for one in observed) == 3_000
    assert {one["project"] for one in observed} == {one.name for one in PROJECTS}
    assert len({one["agent_id"] for one in observed}) >= 5


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
async def test_axe_finds_nothing_serious_on_any_tab(settled: Shown, page: Page, scheme: str, width: int):
    """And a screenshot of each is kept, for people."""
    if not AXE.exists():
        pytest.skip(f"{AXE.relative_to(ROOT)} is not installed")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    phone = width < 500
    await page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
    await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    memory = settled.get("/v1/memories", project=SHOP, limit="1").json()["items"][0]["id"]
    lesson = settled.get("/v1/lessons", project=SHOP, limit="1").json()["items"][0]["id"]
    await shown_tab(page, settled, "/search")
    await page.value(AXE.read_text())
    found: dict[str, list[str]] = {}
    for name, address in ADDRESSES.items():
        await page.turn_to(address.format(memory=memory, lesson=lesson))
        await page.until("!document.querySelector('main[aria-busy]')")
        found[name] = await page.value(FINDINGS)
        assert await page.value("document.documentElement.scrollWidth") <= width, name
        (SCREENSHOTS / f"{name}-{scheme}-{width}.png").write_bytes(await page.screenshot())
    assert {name: some for name, some in found.items() if some} == {}
    assert page.refused == []


async def test_lists_are_filtered_and_grow_by_pages(settled: Shown, page: Page):
    rows = "document.querySelectorAll('main .rows > li').length"
    await shown_tab(page, settled, f"/memories?project={SHOP}")
    await page.until(f"{rows} > 0")
    first = await page.value(rows)
    await page.press_button("Show more")
    await page.until(f"{rows} > {first}")
    await page.fill("#words", "generated")
    await page.until("location.hash.includes('words=generated')")
    texts = "[...document.querySelectorAll('main .rows article')].map((one) => one.textContent)"
    await page.until(f"{rows} > 0 && {texts}.every((text) => text.includes('is generated'))")
    await page.fill("#words", "")
    await page.fill("#type", "procedural")
    await page.until(f"{rows} > 0 && {texts}.every((text) => text.includes('procedural'))")
    await page.turn_to(f"/sessions?project={SHOP}")
    await page.fill("#status", "failed")
    await page.until(f"{rows} > 0 && {texts}.every((text) => text.includes('failed'))")
    await page.turn_to(f"/timeline?project={SHOP}")
    await page.fill("#by", "ada")
    await page.until(
        "[...document.querySelectorAll('.turn > summary > .quiet')].every((one) => one.textContent === 'ada')"
    )


async def test_a_question_is_asked_of_one_kind_and_as_of_a_time(settled: Shown, page: Page):
    await shown_tab(page, settled, f"/search?project={SHOP}&q=load+tests+of+checkout&min=0")
    kinds = "[...document.querySelectorAll('.results .tag:first-child')].map((one) => one.textContent)"
    await page.until(f"{kinds}.length === 10")
    for kind in ("observation", "lesson", "summary"):
        await page.press(f"#kind-{kind}")
    await page.until(f"{kinds}.length > 0 && {kinds}.every((one) => one === 'memory')")
    await page.fill("#asof", "2001-01-01T00:00")
    await page.until_shown("No results")


async def test_the_pickers_name_every_project_and_agent(settled: Shown, page: Page, said: list[dict[str, Any]]):
    await shown_tab(page, settled, "/sessions")
    for picker, names in (("project", {one.name for one in PROJECTS}), ("agent", {one["agent_id"] for one in said})):
        shown = await page.value(f"[...document.querySelectorAll('#{picker} option')].map((one) => one.textContent)")
        assert names <= set(shown)
    await page.value("document.getElementById('project').focus()")
    await page.fill("#project", f"={PROJECTS[1].name}")
    await page.until(f"location.hash.includes('project={PROJECTS[1].name}')")
    await page.until("[...document.querySelectorAll('main .rows .facts')].every((one) => "
                     f"one.textContent.includes('{PROJECTS[1].name}'))")  # fmt: skip


async def test_a_memory_among_hundreds_is_edited_and_forgotten_while_its_list_follows(settled: Shown, page: Page):
    await shown_tab(page, settled, f"/memories?project={SHOP}")
    await page.until("document.getElementById('live').textContent === 'live'")
    made = settled.post("/v1/memories", project=SHOP, content="The lighthouse keeper counts ships at dusk.").json()
    await page.press_button("The lighthouse keeper counts ships at dusk.")
    await page.press_button("Edit")
    await page.fill("textarea[name=content]", "The lighthouse keeper counts ships at dawn.")
    await page.press_button("Save as a new version")
    await page.until_shown("2 versions")
    await page.press_button("Delete…")
    await page.press_button("Delete")
    await page.until_shown("The document is deleted.", "A search for its text no longer returns it.", "Done.")
    await page.press_button("Close")
    await page.until_shown("Memory not found")
    async with settled.server.client() as client:
        assert (await client.get(f"/v1/memories/{made['id']}")).status_code == 404


async def test_a_replay_of_thousands_of_turns_shows_a_window_of_them_at_any_moment(
    settled: Shown, page: Page, said: list[dict[str, Any]]
):
    turns = [one for one in said if one.get("session_id") == LONG_SESSION and one["type"] == "observe"]
    await shown_tab(page, settled, f"/replay/{LONG_SESSION}?project={SHOP}")
    await page.until_shown("Event 1 of 3,0")
    await page.until("document.getElementById('moment').max >= 3000")
    await page.value("document.getElementById('moment').focus()")
    await page.key("End")
    await page.until("document.querySelector('.moment strong').textContent.startsWith('Event 3,0')")
    assert await page.value("document.querySelectorAll('#events .turn').length") == 25
    await page.fill("#moment", "1500")
    await page.until_shown("Event 1,500 of 3,0")
    for name, event in (("ArrowRight", "1,501"), ("ArrowLeft", "1,500")):
        await page.key(name)
        await page.until_shown(f"Event {event} of 3,0")
    at = "new URLSearchParams(location.hash.split('?')[1]).get('at')"
    await page.until(f"Date.parse({at}) >= {turns[1400]['occurred_at'].timestamp() * 1000}")
    where = await page.value("location.hash")
    await page.go("about:blank")
    await page.go(f"{settled.server.url}/viewer{where}")
    await page.until("document.getElementById('moment').max >= 3000")
    await page.until_shown("Event 1,500 of 3,0")


async def test_a_replay_plays_and_pauses_by_the_space_bar_and_stops_at_its_end(settled: Shown, page: Page):
    await shown_tab(page, settled, f"/replay/{LONG_SESSION}?project={SHOP}")
    await page.fill("#speed", "100")
    await page.value("document.getElementById('moment').focus()")
    await page.key(" ", 32)
    await page.until_shown("Pause")
    await page.until("Number(document.getElementById('moment').value) > 5")
    await page.key(" ", 32)
    await page.until_shown("Play")
    await page.until("document.getElementById('moment').max >= 3000")
    await page.fill("#moment", "999999")
    await page.press_button("Back")
    await page.press_button("Play")
    await page.until("document.getElementById('moment').value === document.getElementById('moment').max")
    await page.until_shown("Play")


async def test_a_replay_knows_what_was_known_then_and_asks_recall_as_of_then(settled: Shown, page: Page):
    project = "replayed"
    nine, ten = "The ferry leaves from pier four at nine.", "The ferry leaves from pier four at ten."
    settled.post("/v1/observations", project=project, session_id="pier-1", content=f"Somebody said: {nine}")
    first = settled.post("/v1/memories", project=project, content=nine).json()
    settled.post("/v1/observations", project=project, session_id="pier-1", content=f"Somebody said: {ten}")
    settled.get("/v1/memories", project=project, after=first["position"])
    revised = settled.patch(f"/v1/memories/{first['id']}", content=ten).json()
    settled.get("/v1/memories", project=project, after=revised["position"])
    await shown_tab(page, settled, f"/replay?project={project}")
    await page.until_shown("Event 4 of 4")
    known = "[...document.querySelectorAll('.then section:last-child li')].map((one) => one.textContent).join()"
    await page.until(f"({known}).startsWith('The ferry leaves from pier four at ten. version 2')")
    assert "at nine" not in await page.value(known)
    await page.press_button("Back")
    await page.press_button("Back")
    await page.until_shown("Event 2 of 4")
    assert (await page.value(known)).startswith("The ferry leaves from pier four at nine.")
    assert "at ten" not in await page.value(known)
    await page.fill("#then-q", "when does the ferry leave")
    await page.press_button("Ask")
    told = "document.querySelector('.asked ol')?.textContent ?? ''"
    await page.until(f"({told}).includes('at nine')")
    assert "at ten" not in await page.value(told)
    await page.until_shown("Found today but not at this time: 2.", "not today")
    assert "q=when+does" in await page.value("location.hash")


MOMENTS = """(async () => {
  const { event, knownAt, Moments } = await import('/viewer/moments.js');
  const made = (at, more) => event('task', { id: `e${at}`, agent_id: '', content: 'x', position: `${at}-0`,
    recorded_at: new Date(at).toISOString(), ...more });
  const moments = new Moments();
  moments.add([made(50), made(60)]);
  moments.go(7);
  moments.add([made(40), made(55), made(10)]);
  const told = [moments.place, moments.current.id];
  moments.seek(54);
  told.push(moments.current.id, moments.window(2).map((one) => one.id));
  moments.seek(1);
  told.push(moments.place);
  const [next, recorded] = [20, 22].map((at) => new Date(at).toISOString());
  const versions = [made(10, { valid_until: next, superseded_at: recorded }), made(20), made(30)];
  told.push([9, 10, 19, 20, 30].map((at) => knownAt(versions, at).length));
  const imported = new Moments();  // in another order than they happened
  imported.add([[90, 2], [80, 3]].map(([at, before]) => made(at, { occurred_at: new Date(before).toISOString() })));
  told.push(imported.events.map((one) => [one.at, one.recorded]));
  return told;
})()"""


async def test_a_replay_stays_where_it_is_while_earlier_events_are_loaded(fleet: Shown, page: Page):
    await shown_tab(page, fleet, "/search")
    assert await page.value(MOMENTS) == [
        4, "e60", "e50", ["e50", "e40"], 0, [0, 1, 1, 1, 2], [[2, 90], [3, 80]],
    ]  # fmt: skip


async def test_dead_letters_are_tried_again_and_discarded(settled: Shown, page: Page):
    async with settled.server.client() as client:
        await parked(settled.server, client, "dreams", dream("sheep", "dreams"), b"\xc1 no event")
    await shown_tab(page, settled, "/pipeline")
    await page.until_shown("unknown_event_type", "dream.dreamt", "1 attempt")
    await page.press_button("Try again")
    await page.until_shown("It failed again, after 2 attempts")
    with newer_worker(settled.server):
        await page.press_button("Try again")
        await page.until_shown("Applied.")
    await wait_until(lambda: settled.get("/readyz").json()["vitals"]["workers"] == 1)
    await page.until("!document.querySelector('main').innerText.includes('dream.dreamt')")
    await page.press_button("Discard…")
    await page.fill("dialog input[name=reason]", "not ours")
    await page.press("dialog button.danger")
    await page.until_shown("None; every event was applied.")
    await page.fill("#letters", "discarded")
    await page.until_shown("discarded: not ours")
    answer = settled.get("/v1/sessions/s1/observations", project="dreams").json()
    assert [one["content"] for one in answer["items"]] == ["dreamt of sheep"]


async def test_the_dashboard_says_what_mnemolog_health_says(settled: Shown, page: Page):
    """The same findings and the same vital signs, in the same words."""
    async with settled.server.client() as client:
        await parked(settled.server, client, "dreams", dream("rain", "dreams"))
    await wait_until(lambda: settled.get("/readyz").json()["vitals"]["to_embed"] == 0, 60)  # how long one waits changes
    variables = {"MNEMOLOG_URL": settled.server.url}
    told = run(variables, "health").stdout.splitlines()
    await shown_tab(page, settled, "/dashboard")
    found = [line for line in told if ": " in line]
    assert any(line.startswith("dead_letters: 1 ") for line in found)
    await page.until_shown(*found)
    lines = await page.value("[...document.querySelectorAll('#health > p')].map((one) => one.textContent)")
    assert lines == found, "and nothing else"
    tiles: list[str] = await page.value("[...document.querySelectorAll('.tile')].map((one) => one.textContent.trim())")
    for line in told[1 + len(found) :]:
        name, value = re.split(r"\s{2,}", line.strip(), maxsplit=1)
        assert any(tile.startswith(name) for tile in tiles), tiles
        if name in ("workers", "dead letters", "to embed", "pending"):
            assert any(tile.startswith(f"{name} {value}") for tile in tiles), tiles
    with newer_worker(settled.server):
        settled.post("/v1/admin/dead-letters/redrive", type="dream.dreamt")
        await wait_until(lambda: settled.get("/v1/admin/dead-letters").json()["dead_letters"] == [])
