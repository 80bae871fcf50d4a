#!/usr/bin/env bash
# Send many commands at once: one a line (NDJSON). Needs a running server (`mnemolog up`) and curl.
# Running it twice stores nothing twice, because every command has an event id.
set -euo pipefail

url=${MNEMOLOG_URL:-http://127.0.0.1:3111}
headers=(-H "Content-Type: application/x-ndjson" -H "X-Agent-Id: ada")
key=${MNEMOLOG_KEY:-${MNEMOLOG_SECRET:-}}
if [[ -n $key ]]; then
  headers+=(-H "Authorization: Bearer $key")
fi

curl -sS --fail-with-body "${headers[@]}" --data-binary @- "$url/v1/events" <<'COMMANDS'
{"type": "session", "event_id": "batch-1", "project": "quickstart", "session_id": "tuesday", "status": "started", "title": "Fix the ARM build"}
{"type": "observe", "event_id": "batch-2", "project": "quickstart", "session_id": "tuesday", "kind": "error", "content": "ld: unknown relocation"}
{"type": "observe", "event_id": "batch-3", "project": "quickstart", "session_id": "tuesday", "kind": "decision", "content": "Pin the linker to version 2.41."}
{"type": "lesson", "event_id": "batch-4", "project": "quickstart", "content": "Pin the toolchain of every architecture.", "confidence": 0.7}
COMMANDS
echo
