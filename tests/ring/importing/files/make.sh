#!/bin/sh
# Makes the files of this folder with the systems that they are of. Needs a folder with a Python environment and npm
# packages; nothing else of the project uses these packages:
#
#   python -m venv W/python && W/python/bin/pip install mem0ai==2.2.1 qdrant-client==1.20.0 chromadb==1.5.9
#   cd W && npm install @agentmemory/mcp@0.9.29 @modelcontextprotocol/server-memory@2026.8.31 claude-mem@13.25.3 bun
#   sh make.sh W
#
# Ids and times differ each time, so a test of them has to follow.
set -eu
work=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

rm -f "$here/agentmemory-standalone.json" "$here/server-memory.jsonl"

cat > "$out/stores.py" <<'PYTHON'
import json, os, sys

os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none", "MEM0_DIR": sys.argv[1] + "/home"}
import mem0.utils.factory
from mem0 import Memory
from mem0.embeddings.mock import MockEmbeddings

mem0.utils.factory.EmbedderFactory.create = classmethod(lambda *given, **named: MockEmbeddings())
for store, more in {"qdrant": {"embedding_model_dims": 10, "on_disk": True}, "chroma": {}}.items():
    config = {"collection_name": "mem0", "path": f"{sys.argv[1]}/{store}", **more}
    memory = Memory.from_config({"vector_store": {"provider": store, "config": config}})
    chat = [
        {"role": "user", "name": "Alice", "content": "I prefer aisle seats"},
        {"role": "assistant", "content": "Noted: aisle seats."},
    ]
    where = {"user_id": "alice", "agent_id": "travel", "run_id": "r1"}
    memory.add(chat, **where, metadata={"source": "chat", "count": 3, "trusted": True}, infer=False)
    added = memory.add("Is allergic to peanuts", user_id="alice", infer=False, metadata={"categories": ["health"]})
    memory.update(added["results"][0]["id"], "Is allergic to peanuts and cashews")
    memory.add("Lives in Porto", user_id="bob", infer=False, expiration_date="2031-01-01")
    if store == "qdrant":
        answer = memory.get_all(filters={"user_id": "alice"}, top_k=100)
        json.dump(answer, open(f"{sys.argv[2]}/mem0-get-all.json", "w"), indent=1)
PYTHON
"$work/python/bin/python" "$out/stores.py" "$out/mem0" "$here"
rm -f "$here/mem0-stores.zip"
(cd "$out/mem0" && zip -qr9 "$here/mem0-stores.zip" qdrant chroma/chroma.sqlite3)

cat > "$out/calls.mjs" <<'NODE'
import { spawn } from "node:child_process";
const [server, ...calls] = process.argv.slice(2);
const child = spawn("node", [server], { stdio: ["pipe", "ignore", "ignore"], env: process.env });
let id = 0;
const send = (method, params) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params }) + "\n");
send("initialize", { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "make", version: "1" } });
child.stdin.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) + "\n");
for (const call of calls) {
  send("tools/call", JSON.parse(call));
  await new Promise((done) => setTimeout(done, 1500));
}
child.kill();
NODE
HOME="$out" AGENTMEMORY_URL=http://127.0.0.1:9 STANDALONE_PERSIST_PATH="$here/agentmemory-standalone.json" \
  node "$out/calls.mjs" "$work/node_modules/@agentmemory/mcp/bin.mjs" \
  '{"name":"memory_save","arguments":{"content":"The cart rounds each line","type":"bug","concepts":"carts","files":"cart.py"}}' \
  '{"name":"memory_save","arguments":{"content":"Deploys happen on Tuesdays","type":"workflow"}}'
MEMORY_FILE_PATH="$here/server-memory.jsonl" \
  node "$out/calls.mjs" "$work/node_modules/@modelcontextprotocol/server-memory/dist/index.js" \
  '{"name":"create_entities","arguments":{"entities":[{"name":"Ada","entityType":"person","observations":["Ada writes programs","likes tea"]},{"name":"Acme","entityType":"company","observations":[]}]}}' \
  '{"name":"create_relations","arguments":{"relations":[{"from":"Ada","to":"Acme","relationType":"works_at"}]}}' \
  '{"name":"add_observations","arguments":{"observations":[{"entityName":"Ada","contents":["speaks French"]}]}}'

cat > "$out/claude-mem.cjs" <<'BUN'
const { Database } = require("bun:sqlite");
const { SessionStore } = require(process.argv[2] + "/node_modules/claude-mem/plugin/sqlite/SessionStore.js");
const store = new SessionStore(process.argv[3]);
const db = new Database(process.argv[3]);
const at = Date.UTC(2026, 5, 1, 9);
const seen = { subtitle: "Axle", concepts: ["gotcha"], files_read: ["wheel.py"], files_modified: [] };
const alert = { type: "security_alert", title: "Key in a log", narrative: "The log shows a key.", facts: ["Line 7 has it"] };
for (const [number, project] of [[1, "mill"], [2, "mill/fix-wheel"]]) {
  const session = store.createSDKSession(`content-${number}`, project, "oil the wheel", undefined, "claude-code");
  store.ensureMemorySessionIdRegistered(session, `memory-${number}`);
  store.saveUserPrompt(`content-${number}`, 1, "oil the wheel", session);
  const wheel = { type: "bugfix", title: "Wheel turns", narrative: "It squeaked.", facts: ["Oil helps", "Oak swells"] };
  const first = store.storeObservation(`memory-${number}`, project, { ...seen, ...wheel, agent_id: "agent-7", agent_type: "Explore" }, 1, 0, at);
  store.storeObservation(`memory-${number}`, project, { ...seen, ...alert }, 1, 0, at + 1000);
  store.storeSummary(`memory-${number}`, project, { request: "oil the wheel", investigated: "", learned: "It squeaks", completed: "Oiled", next_steps: "", notes: null }, 1, 0, at + 2000);
  store.upsertToolUse({ toolUseId: `tool-${number}`, contentSessionId: `content-${number}`, memorySessionId: `memory-${number}`, sessionDbId: session, project, toolName: "Bash", toolInput: '{"command":"oil --all"}', toolResponse: '{"stdout":"3 wheels oiled"}', promptNumber: 1, agentId: "agent-7", agentType: "Explore", createdAtEpoch: at - 1000 });
}
db.run("UPDATE observations SET merged_into_project = 'mill' WHERE project = 'mill/fix-wheel'");
db.run("UPDATE session_summaries SET merged_into_project = 'mill' WHERE project = 'mill/fix-wheel'");
BUN
"$work/node_modules/.bin/bun" "$out/claude-mem.cjs" "$work" "$out/claude-mem.db"
"$work/python/bin/python" -c "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA journal_mode = DELETE')" \
  "$out/claude-mem.db"
rm -f "$here/claude-mem.zip"
(cd "$out" && zip -q9 "$here/claude-mem.zip" claude-mem.db)

# notes/kitchen/Coffee.md is what basic-memory 0.24.1 made of
#   bm tool write-note --title Coffee --folder kitchen --tags coffee
#
# chatgpt/ and claude/ were written by hand, in the form of the data exports of 2026: an export has a person's chats.
