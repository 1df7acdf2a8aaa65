#!/usr/bin/env bash
# Expected: messages of type user in a session's file are what the person said.
# Happens: the first is a text of the program (`<session_context>`), with one id for all sessions; and what a tool gave back
# is of type user as well, with an id of its own.
# Package: @google/gemini-cli 0.61.0 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @google/gemini-cli@0.61.0 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(contents):
    text = json.dumps(contents)
    if "read the notes" in text and "functionResponse" not in text:
        return [{"functionCall": {"name": "read_file", "args": {"file_path": "notes.txt"}}}]
    return [{"text": "Well."}]


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send(b"{}", "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        parts = reply(body.get("contents", []))
        answer = {"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                  "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}}
        if "stream" in self.path:
            self.send(f"data: {json.dumps(answer)}\n\n".encode(), "text/event-stream")
        else:
            self.send(json.dumps(answer).encode(), "application/json")

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
mkdir -p "$T/home/.gemini" "$T/work"
cat > "$T/home/.gemini/settings.json" <<'JSON'
{"privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}, "model": {"name": "gemini-2.5-pro"},
 "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}}}
JSON
gemini() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" GEMINI_API_KEY=dummy GOOGLE_GEMINI_BASE_URL="$URL" \
        timeout 120 "$T/node_modules/.bin/gemini" "$@" < /dev/null 2> "$T/err.txt") || { cat "$T/err.txt"; exit 1; }
}
echo "gemini $(gemini --version)"
echo "12 screws" > "$T/work/notes.txt"
gemini -p "Please read the notes."
gemini -p "What is the colour of the shed?"
python3 - "$T"/home/.gemini/tmp/*/chats/*.jsonl <<'PY'
import json, sys
users, ids = [], set()
for path in sys.argv[1:]:
    for line in open(path):
        x = json.loads(line)
        for m in x.get("$set", {}).get("messages", []) + [x]:
            if m.get("type") == "user":
                part = m["content"][0]
                users.append(m)
                print(m["id"][:8], "functionResponse" if "functionResponse" in part else part["text"][:40].replace("\n", " "))
                if part.get("text", "").startswith("<session_context>"):
                    ids.add(m["id"])
assert len(users) == 5 and len(ids) == 1, (len(users), ids)
assert sum("functionResponse" in m["content"][0] for m in users) == 1
print("SEEN: five messages of type user, two of them by the person")
PY
