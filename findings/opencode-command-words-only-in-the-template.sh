#!/usr/bin/env bash
# Expected: the prompt of a custom command holds what the person typed, or says that it was made of a template.
# Happens: the stored user message is the filled-in template in one text part, as any typed prompt: no mark, no name of the command.
# Which words are the person's can no longer be seen.
# Package: opencode-ai 1.18.33 (npm). Seen 2026-11-29.
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
cat > "$T/home/.config/opencode/command/paint.md" <<'MD'
---
description: Paint
---
Paint this by the rules of the house: $ARGUMENTS. Then report.
MD
(cd "$T/work" && git init -q .)
BIN=$(ls "$T"/node_modules/opencode-*/bin/opencode | head -1)
opencode() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 \
        ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"} timeout 120 "$BIN" "$@" < /dev/null 2> "$T/err.txt") ||
        { cat "$T/err.txt"; exit 1; }
}
echo "opencode $(opencode --version)"
opencode run --command paint "the gate in red"
python3 - "$T/home/.local/share/opencode/opencode.db" <<'PY'
import json, sqlite3, sys
base = sqlite3.connect(sys.argv[1])
(message,) = base.execute("select data from message where json_extract(data, '$.role') = 'user'").fetchall()
(part,) = base.execute("select data from part where json_extract(data, '$.text') like 'Paint this%'").fetchall()
print(message[0])
print(part[0])
part = json.loads(part[0])
assert set(part) == {"type", "text"} and part["text"].startswith("Paint this by the rules of the house:")
assert "/paint" not in message[0] and "command" not in message[0]
print("SEEN: a template as the person's words")
PY
