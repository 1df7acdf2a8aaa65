#!/usr/bin/env bash
# Expected: a UserMessage item in the rollout of a session that a person started holds what the person said.
# Happens: `codex exec review --uncommitted` takes no words. The session's rollout has a UserMessage with a sentence of Codex's own, and the review's
# result as a message of role user (`<user_action>`) that has no provenance at all. thread_source of the session is user.
# Package: @openai/codex 0.171.0 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @openai/codex@0.171.0 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(items):
    return [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "The shed should be green.", "annotations": []}]}]


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send(b"{}", "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        items = reply(body["input"])
        response = {"id": f"resp_{id(body)}", "object": "response", "status": "completed", "output": items,
                    "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18,
                              "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}
        events = [{"type": "response.created", "response": {**response, "output": []}}]
        for n, item in enumerate(items):
            events += [{"type": "response.output_item.added", "output_index": n, "item": item},
                       {"type": "response.output_item.done", "output_index": n, "item": item}]
        self.events(events + [{"type": "response.completed", "response": response}])

    def events(self, events):
        lines = [f"event: {e.get('type', 'message')}\ndata: {json.dumps(e)}\n\n" for e in events]
        self.send("".join(lines).encode(), "text/event-stream")

    def send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$T/model.py" > "$T/port" &
SERVER=$!
for _ in $(seq 100); do [ -s "$T/port" ] && break; sleep 0.1; done
URL="http://127.0.0.1:$(cat "$T/port")"
mkdir -p "$T/home/.codex" "$T/work"
cat > "$T/home/.codex/config.toml" <<TOML
model = "some-model"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "$URL/v1"
wire_api = "responses"
[analytics]
enabled = false
TOML
codex() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" timeout 90 "$T/node_modules/.bin/codex" "$@" < /dev/null 2> "$T/err.txt") ||
        { cat "$T/err.txt"; exit 1; }
}
codex --version
(cd "$T/work" && git init -q . && echo "12 screws" > notes.txt)
codex exec review --uncommitted
python3 - "$T"/home/.codex/sessions/*/*/*/rollout-*.jsonl <<'PY'
import json, sys
seen = []
for path in sys.argv[1:]:
    lines = [json.loads(line) for line in open(path)]
    if lines[0]["payload"]["thread_source"] != "user":
        continue
    for x in lines:
        p = x["payload"]
        if p.get("item", {}).get("type") == "UserMessage":
            seen.append(("UserMessage", p["item"]["content"][0]["text"]))
        if x["type"] == "response_item" and p.get("role") == "user":
            seen.append(("role user", p["content"][0]["text"].strip()[:40]))
            assert "content_item_metadata" not in p.get("internal_chat_message_metadata_passthrough", {})
for s in seen:
    print(s)
assert [s[0] for s in seen] == ["UserMessage", "role user"], seen
assert seen[0][1].startswith("Review the current code changes") and seen[1][1].startswith("<user_action>")
print("SEEN: two user messages in a session in which nobody said anything")
PY
