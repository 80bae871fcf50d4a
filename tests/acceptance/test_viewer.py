"""The viewer in a real browser: what each tab shows and does, live, by keyboard, and with a key. Needs chromium."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chromium import Page
from waiting import wait_until

from projections.nouns.lesson import DECAY_RATE, decayed
from tests.acceptance.running import SECRET, Server, running
from tests.acceptance.viewing import TABS, Shown, needs_chromium, page, shown_tab

__all__ = ["page"]

PLANTED = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
UNLABELLED = """[...document.querySelectorAll('main input, main select, main textarea, header select, button, a')]
  .filter((one) => one.checkVisibility() && !(one.labels?.length || one.ariaLabel || one.textContent.trim()))
  .map((one) => one.outerHTML)"""
CONTRASTS = """(() => {
  const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number).map((value) => value / 255)
    .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('body *')]
    .filter((one) => one.checkVisibility())
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .map((one) => [light(getComputedStyle(one).color), light(ground(one)), one])
    .filter(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5)
    .map(([, , one]) => one.outerHTML);
})()"""
pytestmark = needs_chromium


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with running(tmp_path_factory.mktemp("cache"), embedder="none", partitions=2, secret=None) as server:
        shop = Shown(server, "")
        where = {"project": "shop", "session_id": "checkout-1", "agent_id": "ada"}
        shop.post("/v1/sessions", **where, status="started", title="Checkout times out")
        tool = {"tool_name": "Bash", "tool_input": {"command": "npm test"}, "tool_output": f"PASS 12 tests {PLANTED}"}
        shop.post("/v1/observations", **where, data=tool)
        shop.post("/v1/observations", **where, content=f"The pool does not reconnect. {PLANTED}")
        shop.post("/v1/lessons", project="shop", content=f"Restart Redis in tests. {PLANTED}", severity="critical")
        first = shop.post("/v1/actions", project="shop", title=f"Add a chaos test {PLANTED}").json()["id"]
        shop.post("/v1/actions", project="shop", title="Run it every night", requires=[first])
        shop.post("/v1/slots", project="shop", label="guidance", content=f"Deploy on Tuesdays. {PLANTED}")
        memory = shop.post("/v1/memories", project="shop", content=f"The pool retries five times. {PLANTED}")
        yield Shown(server, memory.json()["id"])


@pytest.mark.parametrize(
    ("address", "texts"),
    [
        ("/search?project=shop&q=pool", ["The pool retries five times.", "Score details"]),
        ("/memories?project=shop", ["The pool retries five times."]),
        ("/memories/{memory}", ["Source", "not derived from other documents"]),
        ("/sessions?project=shop", ["Checkout times out", "2 turns"]),
        ("/sessions/checkout-1?project=shop", ["npm test", "The pool does not reconnect."]),
        ("/dashboard", ["Reads and writes work", "Dead letters", "memory.recorded"]),
        ("/lessons?project=shop", ["Restart Redis in tests.", "50% confidence"]),
        ("/slots?project=shop", ["guidance", "project_context"]),
        ("/actions?project=shop", ["Add a chaos test", "waits for", "ready"]),
        ("/timeline?project=shop", ["npm test", "ada"]),
        ("/replay?project=shop", ["Event 4 of 4", "The pool does not reconnect.", "The pool retries five times."]),
        ("/replay/checkout-1?project=shop", ["Event 1 of 2", "npm test"]),
        ("/graph?project=shop", ["nodes of", "Show as a list"]),
        ("/pipeline", ["2 partitions", "None; every event was applied."]),
    ],
)
async def test_a_tab_shows_what_was_written_and_runs_nothing_of_it(
    shown: Shown, page: Page, address: str, texts: list[str]
):
    await page.go(shown.url(address.format(memory=shown.memory)))
    await page.until_shown(*texts)
    assert "owned" not in await page.value("document.title")
    assert await page.value("document.querySelectorAll('main script, main img').length") == 0
    assert page.refused == []
    assert page.hosts <= {f"127.0.0.1:{shown.server.supervisor.settings.port}", ""}
    assert await page.value("document.cookie") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_control_has_a_name_and_every_text_enough_contrast(shown: Shown, page: Page, scheme: str):
    await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    for tab in (*(f"{name}?project=shop&q=pool" for name in TABS), f"memories/{shown.memory}"):
        await shown_tab(page, shown, f"/{tab}")
        await page.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert await page.value(UNLABELLED) == []
        assert await page.value(CONTRASTS) == []


async def test_a_phone_scrolls_in_one_direction_only(shown: Shown, page: Page):
    await page.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    for tab in TABS:
        await shown_tab(page, shown, f"/{tab}?project=shop&q=pool")
        assert await page.value("document.documentElement.scrollWidth") <= 390, tab


async def test_a_search_by_keyboard_says_why_each_result_is_there(shown: Shown, page: Page):
    await page.go(shown.url("/search?project=shop"))
    await page.until("document.getElementById('q')")
    await page.value("document.getElementById('q').focus()")
    await page.call("Input.insertText", text="how often does the pool retry")
    await page.key("Enter", 13)
    await page.until_shown("The pool retries five times.")
    assert "q=how+often" in await page.value("location.hash")
    await page.press_button("Score details")
    await page.until_shown("contains words of the question")
    assert await page.value("document.querySelector('.bar').ariaLabel.startsWith('Score ')")


async def test_a_memory_is_edited_compared_with_its_former_version_and_forgotten_with_a_receipt(
    shown: Shown, page: Page
):
    made = shown.post("/v1/memories", project="edits", content="The nightly export runs at two.").json()
    await page.go(shown.url(f"/memories/{made['id']}?project=edits"))
    await page.press_button("Edit")
    await page.fill("textarea[name=content]", "The nightly export runs at three.")
    await page.press_button("Save as a new version")
    await page.until_shown("2 versions")
    assert await page.value("[...document.querySelectorAll('del, ins')].map((one) => one.textContent)") == [
        "two", "three",
    ]  # fmt: skip
    await page.press_button("Confirm: proved correct")
    await page.until_shown("Confirmed.")
    await page.press_button("Delete…")
    await page.press_button("Delete")
    await page.until_shown("The document is deleted.", "A search for its text no longer returns it.", "Done.")
    await page.press_button("Close")
    await page.until_shown("Memory not found")
    assert shown.post("/v1/recall", query="nightly export", project="edits").json()["results"] == []


async def test_a_session_is_forgotten_with_the_servers_receipt(shown: Shown, page: Page):
    shown.post("/v1/observations", project="gone", session_id="gone-1", content="A swan was seen at the weir.")
    await page.go(shown.url("/sessions/gone-1?project=gone"))
    await page.press_button("Delete this session…")
    await page.press_button("Delete")
    await page.until_shown("A search afterward returned none", "Log entries")
    assert await page.value("document.querySelector('dialog[open]') !== null"), "the receipt stays until it is closed"


async def test_a_write_is_shown_as_soon_as_it_is_applied(shown: Shown, page: Page):
    await page.go(shown.url("/dashboard"))
    await page.until("document.getElementById('live').textContent === 'live'")
    shown.post("/v1/observations", project="shop", session_id="later-1", agent_id="bea", content="A heron landed.")
    await page.until_shown("A heron landed.")
    await page.value("location.hash = '#/memories?project=shop'")
    await page.until_shown("The pool retries")
    shown.post("/v1/memories", project="shop", content="Herons are counted on Mondays.")
    await page.until_shown("Herons are counted on Mondays.")


async def test_what_somebody_is_writing_is_not_replaced_by_what_comes_in(shown: Shown, page: Page):
    await page.go(shown.url("/slots?project=shop"))
    await page.until("document.getElementById('live').textContent === 'live'")
    await page.until_shown("guidance")
    await page.value("document.querySelector('main textarea').focus()")
    await page.call("Input.insertText", text="half a sentence")
    shown.post("/v1/slots", project="shop", label="self_notes", content="something else")
    await page.until_shown("New activity. Refresh")
    assert "half a sentence" in await page.value("document.querySelector('main textarea').value")


async def test_unsaved_text_survives_activity_of_agents_until_its_user_refreshes(shown: Shown, page: Page):
    field = "document.querySelector('textarea[aria-label=session_patterns]').value"
    await page.go(shown.url("/slots?project=work"))
    await page.fill("textarea[aria-label=session_patterns]", "Half a sentence")
    shown.post("/v1/slots", project="work", label="self_notes", content="Done.")
    await page.until_shown("New activity. Refresh")
    assert await page.value(field) == "Half a sentence"
    await page.press_button("New activity. Refresh")
    await page.until(f"{field} === ''")


async def test_a_slot_a_lesson_and_an_action_are_changed(shown: Shown, page: Page):
    lesson = shown.post("/v1/lessons", project="work", content="Sum first, round last.").json()["id"]
    action = shown.post("/v1/actions", project="work", title="Sharpen the saw").json()["id"]
    await page.go(shown.url(f"/lessons/{lesson}?project=work"))
    await page.press_button("Proved correct again")
    await page.until_shown("55% confidence")
    await page.value("location.hash = '#/actions?project=work'")
    await page.fill(f"#{action} select", "done")
    await page.until("[...document.querySelectorAll('.board section')][2].textContent.includes('Sharpen the saw')")
    await page.value("location.hash = '#/slots?project=work'")
    await page.fill("textarea[aria-label=guidance]", "Be brief.")
    await page.press("form.edit button")
    await page.until_shown("9 of 1,500 characters")
    await wait_until(lambda: shown.get("/v1/slots/guidance", project="work").json()["content"] == "Be brief.")


async def test_claimed_action_shows_its_holder_and_can_be_released(shown: Shown, page: Page):
    made = shown.post("/v1/actions", project="claims", title="Refactor the pool", paths=["src/pool/**"]).json()["id"]
    shown.post(f"/v1/actions/{made}/claim", agent_id="ada", lease_seconds=3600)
    await shown_tab(page, shown, "/actions?project=claims")
    await page.until_shown("Claimed by ada until", "Files: src/pool/**")
    await page.press_button("Release")
    await page.until("!document.body.innerText.includes('Claimed by ada')")
    assert shown.get(f"/v1/actions/{made}").json()["holder"] == ""


async def test_a_suggested_rule_is_approved_with_another_text(shown: Shown, page: Page):
    prompt = {"kind": "prompt_submit", "data": {"prompt": "keep functions under 40 lines"}}
    shown.post("/v1/observations", project="rules", session_id="r1", **prompt)
    shown.post("/v1/sessions/r1/summary", project="rules")
    await wait_until(lambda: bool(shown.get("/v1/inbox", project="rules").json()["items"]), 60)
    await page.go(shown.url("/inbox?project=rules"))
    await page.until_shown("keep functions under 40 lines")
    await page.press("summary")
    await page.fill("textarea[name=content]", "Functions have at most 40 lines.")
    await page.press("form.edit button")
    await page.until_shown("Nothing is suggested")
    context = shown.post("/v1/context", project="rules").json()["context"]
    assert "## Rules that users want followed\n- Functions have at most 40 lines." in context


async def test_a_private_memory_is_shown_to_whom_it_is_for(shown: Shown, page: Page):
    shown.post("/v1/memories", project="shop", agent_id="ada", visibility="private", content="A secret of ada alone.")
    await page.go(shown.url("/memories?project=shop"))
    await page.until_shown("The pool retries")
    assert "A secret of ada" not in await page.value("document.body.innerText")
    await page.value("location.hash = '#/memories?project=shop&agent=ada'")
    await page.until_shown("A secret of ada alone.")


async def test_a_long_tag_keeps_a_page_as_wide_as_the_window(shown: Shown, page: Page):
    made = shown.post("/v1/memories", project="tags", content="It is tagged.", tags=["w" * 300]).json()
    shown.get("/v1/memories", project="tags", after=made["position"])
    await shown_tab(page, shown, "/memories?project=tags")
    await page.until_shown("It is tagged.")
    assert await page.value("document.documentElement.scrollWidth <= innerWidth")


async def test_a_replay_begins_behind_a_page_of_what_its_reader_may_not_see(
    tmp_path_factory: pytest.TempPathFactory, page: Page
):
    cache = tmp_path_factory.mktemp("cache")
    with running(cache, embedder="none", partitions=2, secret=None, agent_scope="isolated") as server:
        isolated = Shown(server, "")
        of_ada = {"project": "shop", "session_id": "shop-1", "agent_id": "ada", "content": "Seen by ada."}
        of_bob = {"type": "observe", "project": "shop", "session_id": "shop-2", "agent_id": "bob"}
        isolated.post("/v1/observations", **of_ada)
        batch = [{**of_bob, "content": f"Seen by bob, {n}."} for n in range(600)]
        async with server.client("ada") as client:
            answer = await client.post("/v1/events", json=batch)
            await client.get("/v1/timeline", params={"project": "shop", "after": answer.json()["position"]})
        await page.go(isolated.url("/replay?project=shop&agent=ada"))
        await page.until_shown("Event 1 of 1", "Seen by ada.")
        await page.go("about:blank")  # before its server ends


async def test_a_server_with_a_secret_asks_for_it_and_shows_nothing_before(server: Server, page: Page):
    locked = Shown(server, "")
    locked.post("/v1/memories", content="The pool retries five times.", project="locked")
    await page.go(locked.url("/memories?project=locked"))
    await page.until_shown("This server requires a key.")
    assert "The pool retries" not in await page.value("document.body.innerText")
    await page.fill("#key-field", "mnk_wrong")
    await page.press("#key button.primary")
    await page.until_shown("Invalid key.")
    await page.fill("#key-field", SECRET)
    await page.press("#key button.primary")
    await page.until_shown("The pool retries five times.")
    assert SECRET not in await page.value("location.href + document.cookie + JSON.stringify(localStorage)")
    assert await page.value("sessionStorage.length") == 1


async def test_who_gives_no_key_is_told_how_to_get_one(server: Server, page: Page):
    await page.go(Shown(server, "").url("/memories?project=locked"))
    await page.until_shown("This server requires a key.")
    await page.until("[...document.querySelectorAll('#key button')].at(-1).click() || true")
    await page.until_shown("Something went wrong", "mnemolog admin keys create")
    await page.until("document.getElementById('live').textContent === 'not live'")
    assert not await page.value("document.getElementById('key').open")


async def opened_with(page: Page, locked: Shown, address: str, *roles: str, **limits: Any) -> None:
    """Show an address with a new key of these roles and limits, which the page asks for."""
    key = locked.post("/v1/admin/keys", name="viewer", roles=roles, **limits).json()["key"]

    def is_known() -> bool:
        asked = httpx.get(f"{locked.server.url}/readyz", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
        return asked.status_code != 401

    await wait_until(is_known)  # within two seconds
    await page.go(locked.url(address))
    await page.until_shown("This server requires a key.")
    await page.fill("#key-field", key)
    await page.press("#key button.primary")


BUTTONS = "[...document.querySelectorAll('main button, main select')].map((one) => one.textContent).join()"


async def test_a_key_for_one_project_sees_that_alone(server: Server, page: Page):
    locked = Shown(server, "")
    for project in ("orchard", "quarry"):
        locked.post("/v1/observations", project=project, session_id=f"{project}-1", content=f"Seen in the {project}.")
    await opened_with(page, locked, "/sessions", "read", projects=["orchard"])
    await page.until_shown("orchard-1")
    await page.value("location.hash = '#/dashboard'")
    await page.until_shown("need an operator key")
    assert "quarry" not in await page.value("document.body.innerText")


async def test_a_readers_key_is_offered_nothing_that_it_may_not_do(server: Server, page: Page):
    locked = Shown(server, "")
    locked.post("/v1/slots", project="reading", label="guidance", content="Read only.")
    locked.post("/v1/actions", project="reading", title="Look at it")
    locked.post("/v1/observations", project="reading", session_id="reading-1", content="It was looked at.")
    lesson = locked.post("/v1/lessons", project="reading", content="Look twice.").json()["id"]
    memory = locked.post("/v1/memories", project="reading", content="It is looked at on Mondays.").json()
    locked.get("/v1/memories", project="reading", after=memory["position"])
    await opened_with(page, locked, f"/memories/{memory['id']}?project=reading", "read")
    for address, text in (
        (f"memories/{memory['id']}", "It is looked at on Mondays."), (f"lessons/{lesson}", "Look twice."),
        ("slots", "Read only."), ("actions", "Look at it"), ("sessions/reading-1", "It was looked at."),
    ):  # fmt: skip
        await page.value(f"location.hash = '#/{address}?project=reading'")
        await page.until(f"document.querySelector('main').textContent.includes({json.dumps(text)})")
        assert not re.search("Edit|Delete|Confirm|Save|Remove|New|again", await page.value(BUTTONS)), address
        assert await page.value("document.querySelectorAll('main select:enabled').length") == 0
    await page.value("location.hash = '#/pipeline'")
    await page.until_shown("This key cannot see the pipeline", "operator key")
    assert await page.value("document.getElementById('key-button').textContent") == "Key: read only"


async def test_a_writers_key_edits_and_forgets_documents_but_no_sessions(server: Server, page: Page):
    locked = Shown(server, "")
    memory = locked.post("/v1/memories", project="writing", content="The ink is blue.").json()
    locked.post("/v1/observations", project="writing", session_id="writing-1", content="It was written.")
    locked.get("/v1/memories", project="writing", after=memory["position"])
    await opened_with(page, locked, f"/memories/{memory['id']}?project=writing", "read", "write")
    await page.press_button("Edit")
    await page.fill("textarea[name=content]", "The ink is black.")
    await page.press_button("Save as a new version")
    await page.until_shown("2 versions")
    await page.value("location.hash = '#/sessions/writing-1?project=writing'")
    await page.until_shown("It was written.")
    assert "Delete" not in await page.value(BUTTONS)
    await page.value("location.hash = '#/pipeline'")
    await page.until_shown("This key cannot see the pipeline")


async def test_an_admins_key_sees_dead_letters_and_why_there_is_no_more(server: Server, page: Page):
    await opened_with(page, Shown(server, ""), "/pipeline", "admin")
    await page.until_shown("Partitions and rebuilds need an operator key.", "None; every event was")
    assert "Rebuild" not in await page.value(BUTTONS)


async def test_a_key_that_may_only_write_is_told_what_the_pages_need(server: Server, page: Page):
    await opened_with(page, Shown(server, ""), "/memories?project=writing", "write")
    await page.until_shown("This key cannot read", "need a key with the role read. This key has: write.")


async def test_a_key_that_has_written_as_often_as_it_may_still_reads(server: Server, page: Page):
    locked = Shown(server, "")
    locked.post("/v1/memories", project="throttled", content="The tap drips.")
    await opened_with(page, locked, "/memories?project=throttled", "read", "write", writes_per_minute=1)
    await page.until_shown("The tap drips.")
    await page.call("Page.reload")
    await page.until_shown("The tap drips.")
    assert any("429" in one for one in page.refused)
    assert await page.value("document.getElementById('key-button').textContent") == "Key: set"


async def test_an_address_that_reads_as_an_agent_of_another_key_says_so(server: Server, page: Page):
    await opened_with(page, Shown(server, ""), "/memories?project=throttled&agent=bob", "read", agents=["ada"])
    await page.until_shown("this key does not cover agent 'bob'")
    await page.value("location.hash = '#/memories?project=throttled&agent=ada'")
    await page.until_shown("The tap drips.")


async def test_what_cannot_be_shown_says_so_and_what_to_do(shown: Shown, page: Page):
    await page.go(shown.url("/sessions/nobody-knows-it"))
    await page.until_shown("Session not found", "All sessions")
    await page.value("location.hash = '#/memories?project=nothing-here'")
    await page.until_shown("This project has no memories yet", "mnemolog remember")
    await page.value("location.hash = '#/memories'")
    await page.until_shown("Memories are listed by project")


async def test_the_graph_grows_where_it_is_asked_to_and_has_a_list_beside_it(shown: Shown, page: Page):
    for text in ("The weir opens at dawn.", "Salmon pass in spring.", "Gauges report every hour."):
        written = shown.post("/v1/memories", project="grow", content=text, files=["weir.py"]).json()
        shown.get("/v1/memories", project="grow", after=written["position"])
    await page.go(shown.url("/graph?project=grow&start=file:weir.py"))
    await page.until_shown("nodes of")
    await page.value("document.querySelector('canvas').focus()")
    await page.key("n")
    await page.press_button("Show its neighbors")
    await page.press_button("Show as a list")
    await page.until_shown("The weir opens", "Salmon pass", "Gauges report")


async def test_the_page_opens_at_the_diary(shown: Shown, page: Page):
    await page.go(shown.url(""))
    await page.until("location.hash.startsWith('#/diary')")
    assert await page.value("document.querySelector('#tabs a').textContent") == "Diary"
    assert await page.value("document.querySelector('#tabs [aria-current]').textContent") == "Diary"


DAYS = "[...document.querySelectorAll('main h2.day')].map((one) => one.textContent)"


async def test_the_diary_says_what_was_asked_done_and_left_under_one_heading_a_day(shown: Shown, page: Page):
    for number, day in ((1, "02"), (2, "02"), (3, "03")):
        where = {"project": "diary", "session_id": f"tide-{number}", "agent_id": "ada"}
        at = f"2026-02-{day}T0{number}:00"
        shown.post("/v1/sessions", **where, status="started", title=f"Tide gauge {number}", occurred_at=f"{at}:00Z")
        prompt = {"prompt": f"Why is gauge {number} late?"}
        shown.post("/v1/observations", **where, kind="prompt", data=prompt, occurred_at=f"{at}:01Z")
        for second in (2, 3):
            tool = {"tool_name": "Bash", "tool_input": {"command": "date"}, "tool_output": "12:00"}
            shown.post("/v1/observations", **where, data=tool, occurred_at=f"{at}:0{second}Z")
        for second, words in ((4, "I look at its clock."), (5, f"Gauge {number} is on time again.")):
            shown.post("/v1/observations", **where, kind="message", content=words, occurred_at=f"{at}:0{second}Z")
        ended = shown.post("/v1/sessions", **where, status="ended", occurred_at=f"{at}:06Z").json()
    greeting = {"project": "diary", "session_id": "hello", "occurred_at": "2026-02-01T09:00:00Z"}
    shown.post("/v1/observations", **greeting, kind="prompt_submit", data={"prompt": "hi"})
    shown.get("/v1/sessions", project="diary", after=ended["position"])
    await shown_tab(page, shown, "/diary?project=diary")
    await page.until_shown("1 short session")
    titles = "[...document.querySelectorAll('main .entry h3')].map((one) => one.textContent)"
    assert await page.value(titles) == ["Tide gauge 3", "Tide gauge 2", "Tide gauge 1"]
    assert len(await page.value(DAYS)) == len(set(await page.value(DAYS))) == 3
    first = "document.querySelector('main .entry')"
    fields = await page.value(f"[...{first}.querySelectorAll('dt, dd')].map((one) => one.textContent)")
    assert fields[:4] == ["Asked", "Why is gauge 3 late?", "Done", "Gauge 3 is on time again."]
    assert "date" not in await page.value(f"{first}.innerText")
    await page.press(".entry > details > summary")
    await page.until_shown("2 tool calls", "I look at its clock.")
    assert not await page.value(f"{first}.querySelector('details.tools .turn').checkVisibility()")
    await page.press(".entry details.tools > summary")
    await page.until(f"{first}.querySelector('details.tools .turn').checkVisibility()")


async def test_a_slash_goes_to_the_search_unless_somebody_types(shown: Shown, page: Page):
    await shown_tab(page, shown, "/slots?project=shop")
    await page.call("Input.dispatchKeyEvent", type="keyDown", key="/", text="/")
    await page.until("document.activeElement?.id === 'q'")
    assert "#/search" in await page.value("location.hash")
    await page.call("Input.dispatchKeyEvent", type="keyDown", key="/", text="/")
    assert await page.value("document.getElementById('q').value") == "/"


async def test_words_of_the_question_are_marked_and_the_colors_of_scores_explained(shown: Shown, page: Page):
    await shown_tab(page, shown, "/search?project=shop&q=how+often+does+the+pool+retry&min=0")
    marks = "[...new Set([...document.querySelectorAll('mark')].map((one) => one.textContent.toLowerCase()))].sort()"
    await page.until("document.querySelector('mark')")
    assert await page.value(marks) == ["pool", "retries"]
    legend = await page.value("document.querySelector('.legend').textContent")
    assert "words" in legend
    sure = "import('/viewer/text.js').then(({ inWords }) => inWords({ certainty: 'recorded', confidence: 0.999 }))"
    assert await page.value(sure) == "recorded (99%)", "never rounded up"


async def test_the_dashboard_counts_all_events_of_the_last_hour_and_day_by_project(shown: Shown, page: Page):
    batch = [{"type": "observe", "project": "counted", "session_id": "c1", "content": f"Ship {n}."} for n in range(450)]
    async with shown.server.client() as client:
        answer = (await client.post("/v1/events", json=batch)).json()
    shown.get("/v1/timeline", project="counted", after=answer["position"])
    counts = "[...document.querySelectorAll('.charts h3 strong')].map((one) => one.textContent)"
    await shown_tab(page, shown, "/dashboard?project=counted")
    await page.until("document.getElementById('live').textContent === 'live'")
    await page.until(f"({counts}).join() === '450,450'")
    shown.post("/v1/observations", project="counted", session_id="c1", content="One more ship.")
    await page.until(f"({counts}).join() === '451,451'")
    await shown_tab(page, shown, "/dashboard")
    await page.until(
        "[...document.querySelectorAll('.charts li')].some((one) => one.textContent.startsWith('counted 451'))"
    )


STATE = """(() => {
  const real = window.fetch;
  window.fetch = async (address, request) => {
    const answer = await real(address, request);
    if (address !== '/readyz') return answer;
    const state = await answer.json();
    return Response.json({ ...state, status: 'degraded', degraded: %s });
  };
  dispatchEvent(new HashChangeEvent('hashchange'));
})()"""
BACKLOG = {"code": "embedding", "message": "5,000 texts have been waiting for a vector, for up to 20 s"}
PROBLEM = {"code": "no_worker", "message": "no worker is running"}


async def test_a_backlog_is_catching_up_and_only_a_problem_is_degraded(shown: Shown, page: Page):
    """The state is given here: a real backlog of this size takes minutes."""
    await shown_tab(page, shown, "/dashboard")
    await page.value(STATE % json.dumps([BACKLOG]))
    await page.until_shown("Catching up: 5,000 texts have been waiting for a vector, for up to 20 s")
    text = await page.value("document.querySelector('main').innerText")
    assert text.count("5,000 texts have been waiting") == 1
    assert "Reads and writes work" in text
    assert "degraded" not in text
    await page.value(STATE % json.dumps([BACKLOG, PROBLEM]))
    await page.until_shown("The server is degraded", "no_worker: no worker is running")


async def test_a_finished_action_waits_for_nothing(shown: Shown, page: Page):
    first = shown.post("/v1/actions", project="finished", title="Lay the keel").json()["id"]
    second = shown.post("/v1/actions", project="finished", title="Launch it", requires=[first]).json()["id"]
    await shown_tab(page, shown, "/actions?project=finished")
    await page.until(f"document.getElementById('{second}').innerText.includes('waits for Lay the keel')")
    shown.patch(f"/v1/actions/{second}", status="done")
    await page.until(f"document.getElementById('{second}').querySelector('select').value === 'done'")
    assert "waits for" not in await page.value(f"document.getElementById('{second}').innerText")


async def test_a_slot_can_be_saved_once_its_text_has_changed(shown: Shown, page: Page):
    await shown_tab(page, shown, "/slots?project=shop")
    saving = "[...document.querySelectorAll('form.edit button')].filter((one) => one.checkVisibility()).length"
    assert await page.value(saving) == 0
    before = await page.value("document.querySelector('textarea[aria-label=self_notes]').value")
    await page.fill("textarea[aria-label=self_notes]", "Something new.")
    assert await page.value(saving) == 1
    await page.fill("textarea[aria-label=self_notes]", before)
    assert await page.value(saving) == 0


async def test_a_file_is_one_node_whichever_part_of_its_path_was_recorded(shown: Shown, page: Page):
    for path in ("src/deep/gauge.py", "/home/ada/tide/src/deep/gauge.py", "src/other/gauge.py"):
        made = shown.post("/v1/memories", project="paths", content=f"It is about {path}.", files=[path]).json()
        shown.get("/v1/memories", project="paths", after=made["position"])
    await shown_tab(page, shown, "/graph?project=paths")
    files = "[...document.querySelectorAll('main details li')].map((one) => one.textContent)"
    names = [name for name in await page.value(files) if name.startswith("file")]
    assert len(names) == 2, names


MOVED = """(async () => {
  const { Layout } = await import('/viewer/force.js');
  const layout = new Layout(40, Array.from({ length: 39 }, (_, i) => [i + 1, i >> 1]));
  for (let step = 0; step < 400; step += 1) layout.tick();
  const apart = [];
  for (let a = 0; a < 40; a += 1) for (let b = 0; b < a; b += 1)
    apart.push(Math.hypot(layout.x[a] - layout.x[b], layout.y[a] - layout.y[b]));
  return [Math.min(...apart), Math.max(...apart)];
})()"""


async def test_a_layout_keeps_nodes_apart_and_together(shown: Shown, page: Page):
    await page.go(shown.url("/search?project=shop"))
    await page.until_shown("Search what agents recorded")
    nearest, farthest = await page.value(MOVED)
    assert nearest > 15, "nodes have a radius of 5 to 14"
    assert farthest < 2000


@pytest.mark.parametrize("weeks", [0, 0.5, 0.999, 1, 3, 12, 40])
async def test_the_curve_of_a_lesson_fades_as_lessons_do(shown: Shown, page: Page, weeks: float):
    await page.go(shown.url("/search?project=shop"))
    await page.until_shown("Search what agents recorded")
    week_ms = 7 * 86_400_000
    told = await page.value(
        f"import('/viewer/decay.js').then(({{ confidenceAt }}) => confidenceAt(0.8, 0, {weeks * week_ms}))"
    )
    assert told == pytest.approx(decayed(0.8, DECAY_RATE, weeks), abs=0.001)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The export runs at two.", "The export runs at three, on Mondays."),
        ("", "new"),
        ("gone", ""),
        ("line one\nline two", "line two\nline three"),
        ("word " * 3000, "other " * 3000),
    ],
)
async def test_a_diff_holds_both_texts(shown: Shown, page: Page, before: str, after: str):
    await page.go(shown.url("/search?project=shop"))
    await page.until_shown("Search what agents recorded")
    steps = await page.value(
        f"import('/viewer/diff.js').then(({{ diff }}) => diff({json.dumps(before)}, {json.dumps(after)}))"
    )
    assert "".join(text for kind, text in steps if kind != "new") == before
    assert "".join(text for kind, text in steps if kind != "gone") == after


@pytest.mark.parametrize("path", ["/", "/viewer", "/agentmemory/viewer"])
def test_the_page_is_served_with_its_policy(shown: Shown, path: str):
    answer = httpx.get(f"{shown.server.url}{path}", timeout=60)
    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/html")
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "set-cookie" not in answer.headers


def test_a_page_of_another_origin_may_not_ask_for_the_viewers_files(shown: Shown):
    answer = httpx.get(f"{shown.server.url}/viewer/main.js", headers={"Origin": "https://evil.example"}, timeout=60)
    assert answer.status_code == 403
    other_name = httpx.get(f"{shown.server.url}/viewer/main.js", headers={"Host": "evil.example"}, timeout=60)
    assert other_name.status_code == 403
