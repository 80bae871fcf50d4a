// Deletion, with a receipt dialog that stays open until a later search returns nothing.

import { found, get, lastWrite, post, write } from "./api.js";
import { el, fill } from "./dom.js";
import { buttons, failure, table } from "./parts.js";
import { again } from "./route.js";
import { count, when } from "./text.js";

const AGAIN_MS = 500;
const QUERY_CHARS = 1000;
const LOOKED_THROUGH = 50;

/** Deletes a memory; the receipt dialog lists each step as it completes. */
export async function forget(memory) {
  const path = `/v1/memories/${encodeURIComponent(memory.id)}`;
  const dialog = receipt("Deleting a memory");
  await stepped(dialog, async (step) => {
    const answer = await write("DELETE", path, { params: { reason: "requested in the viewer" } });
    step(`Written to the log at ${answer.position}.`);
    while (await found(path)) await dialog.pause();
    step("The document is deleted.");
    let hits;
    do {
      const query = memory.content.slice(0, QUERY_CHARS);
      const { results } = await post("/v1/recall", {
        query,
        min_confidence: 0,
        limit: LOOKED_THROUGH,
        fold: false,
        after: lastWrite(),
      });
      hits = results.filter((one) => one.id === memory.id).length;
      if (hits) await dialog.pause();
    } while (hits);
    step("A search for its text no longer returns it.");
  });
}

/** Deletes a session by a request for which the server issues a receipt. */
export async function forgetSession(session) {
  const dialog = receipt("Deleting a session");
  await stepped(dialog, async (step) => {
    let state = await write("POST", "/v1/forget", {
      body: { kind: "session", subject: session.id, project: session.project, reason: "requested in the viewer" },
    });
    step(`Request ${state.id} is stored until it completes.`);
    while (state.status !== "done" || state.removed?.replicas_waiting > 0) {
      dialog.now(state.error || `${state.status}…`);
      await dialog.pause();
      state = await get(`/v1/forget/${state.id}`);
    }
    dialog.body.append(removed(state));
    if (state.probe?.found)
      throw new Error(`A search still returns ${count(state.probe.found, "document")}; see the server's log.`);
    step(`A search afterward returned none of ${count(state.probe?.documents ?? 0, "document")}.`);
  });
}

function removed({ removed: what, finished_at: at }) {
  const documents = Object.entries(what?.documents ?? {}).map(([kind, amount]) =>
    count(amount, kind, kind === "summary" ? "summaries" : kind === "memory" ? "memories" : `${kind}s`),
  );
  return table([
    ["Finished", at && when(at)],
    ["Documents", documents.join(", ")],
    ["Log entries", what?.log_entries],
    ["Cached vectors", what?.embedding_cache],
    ["Index snapshot", what?.snapshot],
  ]);
}

function receipt(title) {
  const [steps, now, body] = [
    el("ul", { class: "steps" }),
    el("p", { class: "quiet", role: "status" }, "…"),
    el("div", {}),
  ];
  const close = el("button", { disabled: true, class: "primary" }, "Close");
  const made = el(
    "dialog",
    { class: "receipt", "aria-labelledby": "receipt-title" },
    el("form", { method: "dialog" }, el("h2", { id: "receipt-title" }, title), steps, body, now, buttons(close)),
  );
  made.addEventListener("close", () => {
    made.remove();
    again();
  });
  document.body.append(made);
  made.showModal();
  return {
    steps,
    body,
    close,
    pause: () => paused(made),
    now: (words) => {
      now.textContent = words;
    },
    fail: (error) => fill(now, failure(error)),
  };
}

async function stepped(dialog, work) {
  try {
    await work((words) => dialog.steps.append(el("li", {}, words)));
    dialog.now("Done.");
  } catch (error) {
    dialog.fail(error);
  }
  dialog.close.disabled = false;
  dialog.close.focus();
}

/** Waits a moment; rejects at once if the dialog was closed. */
async function paused(dialog) {
  await new Promise((resolve) => {
    setTimeout(resolve, AGAIN_MS);
  });
  if (!dialog.isConnected) throw new DOMException("closed", "AbortError");
}
