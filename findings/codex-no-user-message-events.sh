#!/usr/bin/env bash
# Expected: a rollout has an event_msg of type user_message for each prompt and one of type agent_message for each answer, as rollouts of older versions have.
# Happens: there is neither. Both are event_msg of type item_completed with an item UserMessage or AgentMessage, and session_meta says
# history_mode paginated. A reader of user_message events finds no word of the person in a new rollout, without an error.
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
codex exec --skip-git-repo-check "What is the colour of the shed?"
python3 - "$T"/home/.codex/sessions/*/*/*/rollout-*.jsonl <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print("history_mode:", lines[0]["payload"]["history_mode"])
events = [x["payload"] for x in lines if x["type"] == "event_msg"]
print("events:", [(e["type"], e.get("item", {}).get("type")) for e in events])
kinds = {e["type"] for e in events}
assert not {"user_message", "agent_message"} & kinds
items = [e["item"]["type"] for e in events if e["type"] == "item_completed"]
assert items == ["UserMessage", "AgentMessage"], items
print("SEEN: a prompt and an answer, no user_message, no agent_message")
PY
