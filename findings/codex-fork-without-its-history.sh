#!/usr/bin/env bash
# Expected: the rollout of a forked session has the history that it goes on from (older versions copied it).
# Happens: the file has the new words only. session_meta names the parent (forked_from_id) and how far its file counts:
# history_base with end_ordinal_exclusive and end_byte_offset. Without the parent's file the fork begins in the middle.
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
PARENT=$(ls "$T"/home/.codex/sessions/*/*/*/rollout-*.jsonl)
BYTES=$(wc -c < "$PARENT")
ID=$(python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["payload"]["id"])' "$PARENT")
codex exec fork --skip-git-repo-check "$ID" "And the colour of the door?"
FORK=$(ls "$T"/home/.codex/sessions/*/*/*/rollout-*.jsonl | grep -v "$ID")
python3 - "$FORK" "$ID" "$BYTES" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
meta = lines[0]["payload"]
print({k: meta.get(k) for k in ("forked_from_id", "forked_from_ordinal_exclusive", "history_base")})
print("bytes of the parent's file when it was forked:", sys.argv[3])
said = [p["text"] for x in lines if x["type"] == "response_item" and x["payload"].get("role") == "user" for p in x["payload"]["content"]]
print("user texts in the fork:", said)

assert said == ["And the colour of the door?"] and meta["forked_from_id"] == sys.argv[2]
assert meta["history_base"]["end_byte_offset"] == int(sys.argv[3])
print("SEEN: a fork that has only its own prompt")
PY
