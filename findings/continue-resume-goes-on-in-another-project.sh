#!/usr/bin/env bash
# Expected: `cn --resume` goes on with the last session of the folder that it is started in, as such commands of other coding agents do.
# Happens: it takes the last session of all folders. What was said in another project is shown to the model, and what is said now is stored in that
# session, under the other project's folder, without a mark. Messages of a session file have no time and no id either, so nothing tells where the one
# ends, and a `--fork` copies them into a new file without a mark or the name of its parent.
# Package: @continuedev/cli 1.5.47 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @continuedev/cli@1.5.47 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    return f"I see {sum(message['role'] == 'user' for message in messages)} of your messages.", None


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send(json.dumps({"object": "list", "data": [{"id": "fixed", "object": "model"}]}).encode(), "application/json")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        text, call = reply(body["messages"])
        delta = {"role": "assistant", "content": text}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            delta["tool_calls"] = [{"index": 0, "id": f"call_{len(body['messages'])}", "type": "function", "function": function}]
        chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "fixed"}
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, {**chunk, "choices": [end], "usage": usage}]
        self.send("".join(f"data: {json.dumps(c)}\n\n" for c in chunks).encode() + b"data: [DONE]\n\n", "text/event-stream")

    def send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$T/model.py" > "$T/port" &
SERVER=$!
for _ in $(seq 100); do [ -s "$T/port" ] && break; sleep 0.1; done
URL="http://127.0.0.1:$(cat "$T/port")/v1"
mkdir -p "$T/home/.continue" "$T/boats" "$T/taxes"
cat > "$T/config.yaml" <<YAML
name: local
version: 1.0.0
schema: v1
models:
  - {name: fixed, provider: openai, model: fixed, apiKey: none, apiBase: "$URL", roles: [chat]}
YAML
cn() {
    (cd "$T/$1" && env -i HOME="$T/home" PATH="$PATH" CONTINUE_TELEMETRY_ENABLED=0 timeout 90 "$T/node_modules/.bin/cn" --config "$T/config.yaml" \
        "${@:2}" < /dev/null 2> "$T/err.txt") || { cat "$T/err.txt"; exit 1; }
}
cn boats --version
cn boats -p "Our boat is red"
cn taxes -p --resume "We owe five hundred" | tee "$T/answer.txt"
ID=$(basename "$(ls "$T"/home/.continue/sessions/*-*.json)" .json)
cn boats -p --fork "$ID" "And the oars?"
python3 - "$T/home/.continue/sessions" "$ID" "$T/answer.txt" <<'PY'
import glob, json, os, sys

sessions = {session["sessionId"]: session for session in map(json.load, map(open, glob.glob(f"{sys.argv[1]}/*-*.json")))}
parent = sessions.pop(sys.argv[2])
[fork] = sessions.values()
said = lambda session: [item["message"]["content"] for item in session["history"] if item["message"]["role"] == "user"]
folder = os.path.basename(parent["workspaceDirectory"])
keys = sorted({key for item in fork["history"] for key in [*item, *item["message"]]})
print("session of the folder", folder, said(parent))
print("fork:", said(fork), "keys of the file:", sorted(fork), "keys of its messages:", keys)

assert folder == "boats" and said(parent) == ["Our boat is red", "We owe five hundred"]
assert "2 of your messages" in open(sys.argv[3]).read()
assert fork["history"][:4] == parent["history"] and sys.argv[2] not in json.dumps(fork)
assert not any("time" in key.lower() or "date" in key.lower() or key.lower().endswith("id") for key in keys), keys
print("SEEN: one session of two projects")
PY
