#!/usr/bin/env bash
# Expected: the texts of a model in a session's file are answers to the person.
# Happens: after a turn Qwen Code lets a hidden agent (managed-auto-memory-extractor) read the conversation, and its answer is in the person's session
# file: a line of type system, subtype ui_telemetry, with response_text. The answers to the person are there in such lines, too, a second time.
# Package: @qwen-code/qwen-code 0.24.4 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @qwen-code/qwen-code@0.24.4 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


requests = []


def reply(messages):
    requests.append(messages)
    return "The shed should be green." if len(requests) == 1 else "A note of the hidden agent.", []


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
mkdir -p "$T/home/.qwen" "$T/work"
cat > "$T/home/.qwen/settings.json" <<'JSON'
{"privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}, "security": {"auth": {"selectedType": "openai"}}}
JSON
qwen() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" OPENAI_API_KEY=dummy OPENAI_BASE_URL="$URL/v1" OPENAI_MODEL=some-model \
        timeout 120 "$T/node_modules/.bin/qwen" "$@" < /dev/null 2> "$T/err.txt") || { cat "$T/err.txt"; exit 1; }
}
echo "qwen $(qwen --version)"
qwen -p "What is the colour of the shed?"
sleep 2
python3 - "$T"/home/.qwen/projects/*/chats/*.jsonl <<'PY'
import json, sys
texts = []
for line in open(sys.argv[1]):
    x = json.loads(line)
    event = x.get("systemPayload", {}).get("uiEvent", {})
    if "response_text" in event:
        texts.append((x["subtype"], event.get("subagent_name"), event["response_text"]))
    elif x["type"] == "assistant":
        texts.append(("assistant", None, x["message"]["parts"][-1]["text"]))
for t in texts:
    print(t)
person = [t for t in texts if t[1] is None]
hidden = [t for t in texts if t[1] == "managed-auto-memory-extractor"]
assert sorted(t[0] for t in person) == ["assistant", "ui_telemetry"] and len({t[2] for t in person}) == 1
assert hidden and {t[2] for t in person} == {"The shed should be green."} and hidden[0][2] == "A note of the hidden agent."
print("SEEN: one answer to the person, three texts of a model")
PY
