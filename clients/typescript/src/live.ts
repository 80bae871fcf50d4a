/** Reading server-sent events: blocks of fields as they come, and the event of a block. */

import { isObject, ServerFault } from "./errors.ts";

export const STREAM = "text/event-stream";
/** The server sends a comment every 15 s: after this long the connection is lost. */
export const SILENCE_S = 45;

/** The fields of each block that is complete; `waits` is called before each part of the stream, `came` after it. */
export async function* blocksOf(
  body: ReadableStream<Uint8Array>,
  waits: () => void,
  came: () => void,
): AsyncGenerator<Map<string, string>, void, undefined> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (let rest = ""; ; ) {
    waits();
    const { done, value } = await reader.read();
    if (done) return;
    came();
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) yield new Map(block.split("\n").map(fieldOf));
  }
}

/** The event of a block, with the id to continue behind; throws ServerFault for one that is none of the server's. */
export function eventOf<T>(data: string, after: string): T {
  try {
    const event: unknown = JSON.parse(data);
    if (isObject(event) && "position" in event) return { ...event, after } as T;
  } catch (fault) {
    if (!(fault instanceof SyntaxError)) throw fault;
  }
  throw new ServerFault("unreadable_answer", "the live stream sent an event that cannot be read");
}

function fieldOf(line: string): [string, string] {
  const at = line.indexOf(": ");
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 2)];
}
