#!/usr/bin/env bash
# Expected: a session has one rollout file, or its files have different session ids.
# Happens: going back to an earlier turn starts a second file with the same session id in session_meta. Its history_base says how much of the first
# file still counts; the prompts that were taken back stay in the first file, unmarked. Who keeps one file per session id loses the other's words,
# and who reads both has what was taken back beside what replaced it.
# Package: @openai/codex 0.171.0 (npm), by its app-server (the terminal's Esc Esc does the same). Seen 2026-11-29.
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
(cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" timeout 90 python3 - "$T/node_modules/.bin/codex" <<'PY'
import json, subprocess, sys
codex = subprocess.Popen([sys.argv[1], "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

def wait(found):
    for line in codex.stdout:
        message = json.loads(line)
        assert "error" not in message, message
        if found(message):
            return message
    raise SystemExit("the app-server has ended")

def ask(number, method, params):
    codex.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
    codex.stdin.flush()
    return wait(lambda m: m.get("id") == number and "result" in m)["result"]

def say(number, words):
    turn = ask(number, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": words}]})["turn"]["id"]
    wait(lambda m: m.get("method") == "turn/completed")
    return turn

ask(1, "initialize", {"clientInfo": {"name": "finding", "version": "1"}, "capabilities": {"experimentalApi": True}})
thread = ask(2, "thread/start", {"historyMode": "paginated"})["thread"]["id"]
say(3, "What is the colour of the shed?")
turn = say(4, "Paint it red.")
ask(5, "thread/revert", {"threadId": thread, "beforeTurnId": turn})
say(6, "Paint it blue.")
codex.terminate()
codex.wait()
PY
)
python3 - "$T"/home/.codex/sessions/*/*/*/rollout-*.jsonl <<'PY'
import json, sys
files = []
for path in sorted(sys.argv[1:]):
    lines = [json.loads(line) for line in open(path)]
    said = [x["payload"]["item"]["content"][0]["text"] for x in lines if x["payload"].get("item", {}).get("type") == "UserMessage"]
    files.append((lines[0]["payload"], said))
    print(lines[0]["payload"]["id"], lines[0]["payload"].get("history_base"), said)
(first, before), (second, after) = files
assert first["id"] == second["id"] == first["session_id"] == second["session_id"]
assert before == ["What is the colour of the shed?", "Paint it red."] and after == ["Paint it blue."]
assert second["history_base"]["end_ordinal_exclusive"] > 0 and "forked_from_id" not in second
print("SEEN: two files with one session id; what was taken back is still in the first")
PY
