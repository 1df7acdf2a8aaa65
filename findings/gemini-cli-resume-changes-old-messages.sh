#!/usr/bin/env bash
# Expected: `--resume` appends to the session's file and leaves the old messages as they were.
# Happens: it appends a `$set` of all messages. Under their old ids they now have the time of the resume, and an answer's content is no longer a
# string: it is a list of parts, the first of which is the model's thought. Who applies `$set` loses the times and takes thoughts for answers.
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
    return [{"text": "The person wants a colour.", "thought": True}, {"text": "The shed should be green."}]


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
gemini -p "What is the colour of the shed?"
sleep 2
gemini --resume latest -p "And the colour of the door?"
python3 - "$T"/home/.gemini/tmp/*/chats/*.jsonl <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
first = {x["id"]: x for x in lines if "id" in x}
sets = [x["$set"]["messages"] for x in lines if "messages" in x.get("$set", {})]
again = {m["id"]: m for m in max(sets, key=len)}
changed = 0
for name in first.keys() & again.keys():
    old, new = first[name], again[name]
    print(old["type"], old["timestamp"], "->", new["timestamp"])
    changed += old["timestamp"] != new["timestamp"]
    if old["type"] == "gemini":
        print("   ", json.dumps(old["content"]), "->", json.dumps(new["content"]))
        assert isinstance(old["content"], str) and new["content"][0]["thought"] is True
assert changed == 2, changed
print("SEEN: new times and thoughts in the answer, under the old ids")
PY
