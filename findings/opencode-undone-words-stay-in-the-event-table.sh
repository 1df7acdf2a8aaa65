#!/usr/bin/env bash
# Expected: after an undo and a new prompt, the undone prompt is either still among the messages, marked, or gone.
# Happens: it is gone from the tables message and part, and so from `opencode export`; but its words are in the table event, in the same database.
# Package: opencode-ai 1.18.33 (npm), by its server (the terminal's /undo does the same). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund opencode-ai@1.18.33 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    return "The shed should be green.", []


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send(b"{}", "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        text, calls = reply(body["messages"])
        delta = {"role": "assistant", "content": text}
        if calls:
            delta["tool_calls"] = calls
        end = "tool_calls" if calls else "stop"
        head = {"id": f"chat-{id(body)}", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if not body.get("stream"):
            answer = {**head, "object": "chat.completion", "usage": usage,
                      "choices": [{"index": 0, "message": delta, "finish_reason": end}]}
            return self.send(json.dumps(answer).encode(), "application/json")
        head["object"] = "chat.completion.chunk"
        chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                  {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
                  {**head, "choices": [], "usage": usage}]
        lines = [f"data: {json.dumps(c)}\n\n" for c in chunks]
        self.send(("".join(lines) + "data: [DONE]\n\n").encode(), "text/event-stream")

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
mkdir -p "$T/home/.config/opencode/command" "$T/work"
cat > "$T/home/.config/opencode/opencode.json" <<JSON
{"autoupdate": false, "share": "disabled", "model": "local/some-model", "small_model": "local/some-model", "provider": {"local": {
  "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "$URL/v1", "apiKey": "dummy"}, "models": {"some-model": {}}}}}
JSON
(cd "$T/work" && git init -q .)
BIN=$(ls "$T"/node_modules/opencode-*/bin/opencode | head -1)
opencode() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 \
        ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"} timeout 120 "$BIN" "$@" < /dev/null 2> "$T/err.txt") ||
        { cat "$T/err.txt"; exit 1; }
}
echo "opencode $(opencode --version)"
(cd "$T/work" && exec env -i HOME="$T/home" PATH="$PATH" OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 \
    ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"} \
    timeout 120 "$BIN" serve --hostname 127.0.0.1 --port 0 < /dev/null > "$T/serve.txt" 2>&1) &
OPENCODE=$!
trap 'kill "$OPENCODE" $SERVER 2> /dev/null || true; wait || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
timeout 120 python3 - "$T/serve.txt" <<'PY'
import json, re, sys, time, urllib.request
found = None
while not found:
    time.sleep(0.2)
    found = re.search(r"http://127\.0\.0\.1:\d+", open(sys.argv[1]).read())

def ask(path, body):
    request = urllib.request.Request(found[0] + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))

session = ask("/session", {})["id"]
ask(f"/session/{session}/message", {"parts": [{"type": "text", "text": "What is the colour of the shed?"}]})
wrong = ask(f"/session/{session}/message", {"parts": [{"type": "text", "text": "Paint it red."}]})
ask(f"/session/{session}/revert", {"messageID": wrong["info"]["parentID"]})
ask(f"/session/{session}/message", {"parts": [{"type": "text", "text": "Paint it blue."}]})
PY
python3 - "$T/home/.local/share/opencode/opencode.db" <<'PY'
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
seen = {}
for words in "Paint it red.", "Paint it blue.":
    for table in "part", "event":
        seen[words, table] = base.execute(f"select count(*) from {table} where data like ?", (f"%{words}%",)).fetchone()[0]
        print(words, "rows of", table + ":", seen[words, table])
assert seen["Paint it red.", "part"] == 0 and seen["Paint it blue.", "part"] == 1
assert seen["Paint it red.", "event"] > 0
print("SEEN: undone words in the event table only")
PY
