#!/usr/bin/env bash
# Expected: a line of type user.message in a session's events.jsonl of Copilot CLI is what the person said, and assistant.message what she was
# answered.
# Happens: what the model tells a helper (its tool "task") is a user.message too, and what the helper says an assistant.message, in the same file,
# between the lines of the conversation. The type does not tell them apart, only `agentId` beside `data` does, and a `source` that begins with
# "agent-".
# Package: @github/copilot 1.0.102 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @github/copilot@1.0.102 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


ORDER = "Look which colour the shed has, and say nothing else."


def reply(messages):
    if messages[-1]["role"] == "tool":
        return "It should be green.", None
    if ORDER in messages[-1]["content"]:
        return "Green, I am only a helper.", None
    return "I ask a helper.", ("task", {"name": "look", "description": "Look at the shed", "prompt": ORDER, "agent_type": "explore", "mode": "sync"})


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
mkdir -p "$T/home" "$T/work"
git init --quiet "$T/work"
copilot() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" COPILOT_OFFLINE=true COPILOT_AUTO_UPDATE=false COPILOT_MODEL=fixed \
        COPILOT_PROVIDER_BASE_URL="$URL" timeout 200 "$T/node_modules/.bin/copilot" "$@" < /dev/null 2> "$T/err.txt") || { cat "$T/err.txt"; exit 1; }
}
copilot --version

copilot -p "What is the colour of the shed?" --allow-all-tools > /dev/null
python3 - "$T/home/.copilot" <<'PY'
import glob, json, sys

[events] = glob.glob(f"{sys.argv[1]}/session-state/*/events.jsonl")
lines = [json.loads(line) for line in open(events)]
lines = [line for line in lines if line["type"] in ("user.message", "assistant.message")]
for line in lines:
    print(line["type"] + (" with an agentId:" if "agentId" in line else ":"), repr(line["data"]["content"]))
order = "Look which colour the shed has, and say nothing else."

assert [line["data"]["content"] for line in lines if line["type"] == "user.message"] == ["What is the colour of the shed?", order]
assert [line["data"]["content"] for line in lines if "agentId" in line] == [order, "Green, I am only a helper."]
print("SEEN: a user message that a model wrote")
PY
