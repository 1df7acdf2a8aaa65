#!/usr/bin/env bash
# Expected: `--fork-session` copies the old conversation into a new session and leaves the copied lines as they are, or marks them as copies.
# Happens: the copies have the same uuid, parentUuid and timestamp as the originals under a new sessionId; nothing in a prompt's line says that it
# is a copy (`/branch` writes forkedFrom, this does not), and the promptId of every old prompt is replaced by the new prompt's one.
# So uuid alone names two lines, and promptId joins all prompts of the fork into one.
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
    return [{"type": "text", "text": "The shed should be green."}]


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
ONE=11111111-0000-4000-8000-000000000001
claude -p "What is the colour of the shed?" --session-id "$ONE"
claude -p "And the colour of the door?" --resume "$ONE"
claude -p "And the colour of the roof?" --resume "$ONE" --fork-session
python3 - "$T"/home/.claude/projects/* "$ONE" <<'PY'
import glob, json, sys
folder, one = sys.argv[1:]
old, new = {}, {}
for path in glob.glob(folder + "/*.jsonl"):
    for line in open(path):
        x = json.loads(line)
        if x["type"] == "user":
            (old if one in path else new)[x["uuid"]] = x
for u, x in new.items():
    print(x["message"]["content"], "| uuid also in the old session:", u in old, "| promptId", x["promptId"][:8],
          "was", old.get(u, x)["promptId"][:8], "| forkedFrom" , x.get("forkedFrom"))
copies = [u for u in new if u in old]
assert len(copies) == 2 and len(new) == 3
assert len({x["promptId"] for x in new.values()}) == 1 and len({x["promptId"] for x in old.values()}) == 2
assert all(new[u]["timestamp"] == old[u]["timestamp"] and "forkedFrom" not in new[u] for u in copies)
print("SEEN: old uuids under a new session, one promptId for three prompts")
PY
