#!/usr/bin/env bash
# Expected: parentUuid, followed from the last line of a transcript, goes through the whole conversation.
# Happens: with two tool calls in one answer, the result of the first hangs on the first call and the result of the second on the second call.
# The next answer hangs on the result that came last. Here that is the first call's: the second call and its result are not on the path.
# Package: @anthropic-ai/claude-code 2.1.332 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    if "tool_result" in json.dumps(messages):
        return [{"type": "text", "text": "Both have run."}]
    calls = [("toolu_1", "sleep 1"), ("toolu_2", "echo two")]
    return [{"type": "tool_use", "id": i, "name": "Bash", "input": {"command": c, "description": "Run"}} for i, c in calls]


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send(b"{}", "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        blocks = reply(body["messages"])
        stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
        usage = {"input_tokens": 9, "output_tokens": 9}
        message = {"id": f"msg_{id(body)}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            answer = {**message, "content": blocks, "stop_reason": stop}
            return self.send(json.dumps(answer).encode(), "application/json")
        events = [{"type": "message_start", "message": message}]
        for n, b in enumerate(blocks):
            if b["type"] == "text":
                empty, delta = {**b, "text": ""}, {"type": "text_delta", "text": b["text"]}
            else:
                empty, delta = {**b, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(b["input"])}
            events += [{"type": "content_block_start", "index": n, "content_block": empty},
                       {"type": "content_block_delta", "index": n, "delta": delta},
                       {"type": "content_block_stop", "index": n}]
        events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
                   {"type": "message_stop"}]
        self.events(events)

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
claude() {
    (cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" ANTHROPIC_BASE_URL="$URL" ANTHROPIC_API_KEY=dummy \
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 \
        timeout 90 node "$T/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs" "$@" < /dev/null)
}
claude --version
claude -p "Please run both." --allowedTools "Bash(echo:*)" "Bash(sleep:*)"
python3 - "$T"/home/.claude/projects/*/*.jsonl <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
nodes = {x["uuid"]: x for x in lines if x.get("uuid")}
here, path = list(nodes)[-1], []
while here:
    path.append(here)
    here = nodes[here].get("parentUuid")
def blocks(uuids, kind):
    content = [nodes[u].get("message", {}).get("content") for u in uuids]
    return [b for c in content if isinstance(c, list) for b in c if b["type"] == kind]
for kind in "tool_use", "tool_result":
    print(kind, "in the file:", len(blocks(nodes, kind)), "| on the path:", len(blocks(path, kind)))
assert len(blocks(nodes, "tool_result")) == 2 and len(blocks(path, "tool_result")) == 1
assert len(blocks(path, "tool_use")) == 1
print("SEEN: the path to the last line has one of two calls")
PY
