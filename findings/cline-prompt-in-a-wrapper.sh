#!/usr/bin/env bash
# Expected: a user message of Cline's session file holds what the person said.
# Happens: each prompt is stored in a tag of Cline's own, `<user_input mode="act">...</user_input>`, which the person neither typed nor sees;
# the results of tools are messages of role user, too.
# Package: cline 3.0.65 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund cline@3.0.65 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    if any(m["role"] == "tool" for m in messages):
        return "There are 12 screws.", []
    call = {"name": "run_commands", "arguments": json.dumps({"commands": ["cat notes.txt"]})}
    return "I look.", [{"index": 0, "id": "call_1", "type": "function", "function": call}]


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
mkdir -p "$T/home" "$T/work"
echo "12 screws" > "$T/work/notes.txt"
cline() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" CLINE_NO_AUTO_UPDATE=1 CLINE_TELEMETRY_DISABLED=1 \
        timeout 90 "$T/node_modules/.bin/cline" "$@" < /dev/null 2> "$T/err.txt") || { cat "$T/err.txt"; exit 1; }
}
# Cline leaves a process behind for its next start. When that has told its number, it is ended with this script.
hub() {
    for _ in $(seq 60); do [ -s "$HUB" ] && break; sleep 0.5; done
    python3 -c 'import json, os, sys; os.kill(json.load(open(sys.argv[1]))["pid"], 15)' "$HUB" || true
    sleep 2
}
HUB="$T/home/.cline/data/locks/hub/production.json"
trap 'hub; kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
echo "cline $(cline --version)"
cline auth -p openai-compatible -k dummy -m some-model -b "$URL/v1" > "$T/auth.txt"
cline -P openai-compatible "Please read the notes."
python3 - "$T"/home/.cline/data/sessions/*/*.messages.json <<'PY'
import json, sys
users = [m["content"][0] for m in json.load(open(sys.argv[1]))["messages"] if m["role"] == "user"]
for block in users:
    print(block["type"], block.get("text", ""))
assert users[0]["text"] == '<user_input mode="act">Please read the notes.</user_input>'
assert [block["type"] for block in users] == ["text", "tool_result"]
print("SEEN: a wrapped prompt")
PY
