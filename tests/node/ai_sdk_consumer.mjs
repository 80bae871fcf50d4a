// Subscribes to memories with the AI SDK, and prints each event that its webhook handler accepts. A line on standard
// input ends the subscription and the process.
import { createServer } from "node:http";
import { createMCPClient, experimental_createMCPEventWebhook as createWebhook } from "@ai-sdk/mcp";

const [url, key, project] = process.argv.slice(2);
const print = (value) => console.log(JSON.stringify(value));
const rows = new Map();
const store = {
  get: async (key) => rows.get(key),
  getById: async (id) => [...rows.values()].find((row) => row.id === id),
  set: async (row) => rows.set(row.key, row),
  update: async (key, patch) => rows.set(key, { ...rows.get(key), ...patch }),
  delete: async (key) => rows.delete(key),
};
const handle = createWebhook({ store, onEvent: async ({ event }) => print(event) });
const server = createServer(async (request, response) => {
  const { method, headers } = request;
  const body = Buffer.concat(await request.toArray());
  const answer = await handle(new Request(`http://127.0.0.1${request.url}`, { method, headers, body }));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.end(await answer.text());
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const client = await createMCPClient({
  transport: { type: "http", url: `${url}/mcp`, headers: { Authorization: `Bearer ${key}` } },
  experimental_events: { store },
});
const events = client.experimental_events;
print((await events.list()).events.map((event) => event.name));
const callback = `http://127.0.0.1:${server.address().port}/`;
const { id } = await events.subscribe({
  name: "memory.*",
  arguments: { project },
  delivery: { mode: "webhook", url: callback, allowInsecureLocalhost: true },
});
print({ id });
process.stdin.once("data", async () => {
  await events.unsubscribe({ id });
  process.exit(0);
});
