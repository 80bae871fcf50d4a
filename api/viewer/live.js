// Events as they are projected, from /v1/live. Read with fetch, because an EventSource cannot send a key.

import { send } from "./api.js";

const AGAIN_MS = 2000;

/** Follows the log until the signal aborts: `onEvent(event)` for each event, `onState(words)` when the connection
 * changes. After a lost connection it resumes after the last event. */
export async function follow(signal, onEvent, onState) {
  let last = "";
  while (!signal.aborted) {
    onState("connecting");
    try {
      const response = await send("GET", "/v1/live", {
        signal,
        asks: false,
        headers: last ? { "Last-Event-ID": last } : {},
      });
      onState("live");
      for await (const { id, data } of frames(response.body)) {
        last = id || last;
        onEvent(JSON.parse(data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 422) last = ""; // the log was replaced
      onState(
        error.status === 401
          ? "not live: no key"
          : error.status === 403
            ? "not live: this key cannot read"
            : "not live",
      );
    }
    await new Promise((resolve) => {
      setTimeout(resolve, AGAIN_MS);
    });
  }
}

/** Parses the server-sent events of a stream. */
async function* frames(body) {
  let rest = "";
  for await (const text of chunks(body.pipeThrough(new TextDecoderStream()))) {
    const parts = (rest + text).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(
        part.split("\n").map((line) => /^(\w*): ?(.*)$/.exec(line)?.slice(1) ?? ["", ""]),
      );
      if (fields.data) yield fields;
    }
  }
}

async function* chunks(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
