#!/usr/bin/env bash
# Expected: the provenance {"type": "user"} that Codex now writes beside each part of a user message means that a person wrote it.
# Happens: the order that the model gives to a subagent has the same mark in the subagent's rollout: role user, kind user.text, provenance user.
# Only session_meta of that file (source.subagent, thread_source) says whose words these are.
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
    texts = json.dumps([i for i in items if i.get("role") == "user"])
    done = [i for i in items if i["type"] == "function_call_output"]
    if "HELPER" not in texts and not done:
        order = {"message": "HELPER: count the screws.", "agent_type": "default"}
        return [{"type": "function_call", "id": "fc_1", "call_id": "call_1", "namespace": "multi_agent_v1",
                 "name": "spawn_agent", "arguments": json.dumps(order)}]
    if "HELPER" not in texts and len(done) == 1:
        wait = {"targets": [json.loads(done[0]["output"])["agent_id"]], "timeout_ms": 20000}
        return [{"type": "function_call", "id": "fc_2", "call_id": "call_2", "namespace": "multi_agent_v1",
                 "name": "wait_agent", "arguments": json.dumps(wait)}]
    return [{"type": "message", "id": f"msg_{len(items)}", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "There are 12 screws.", "annotations": []}]}]


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
codex exec --skip-git-repo-check "Please ask a helper to count the screws."
python3 - "$T"/home/.codex/sessions/*/*/*/rollout-*.jsonl <<'PY'
import json, sys
marks = {}
for path in sys.argv[1:]:
    lines = [json.loads(line) for line in open(path)]
    meta = lines[0]["payload"]
    for x in lines:
        p = x["payload"]
        if x["type"] == "response_item" and p.get("role") == "user":
            notes = p["internal_chat_message_metadata_passthrough"]
            if "user.text" in notes["content_item_kinds"]:
                marks[p["content"][0]["text"]] = (notes["content_item_kinds"], notes["content_item_metadata"])
                print(meta["thread_source"], "|", p["content"][0]["text"], "|", *marks[p["content"][0]["text"]])
assert set(marks) == {"Please ask a helper to count the screws.", "HELPER: count the screws."}, marks
assert len({json.dumps(m) for m in marks.values()}) == 1
print("SEEN: the person's and the model's words with the same mark")
PY
