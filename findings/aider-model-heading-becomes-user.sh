#!/usr/bin/env bash
# Expected: in .aider.chat.history.md the lines that begin with "#### " are the person's.
# Happens: an answer is written as it is, so a small heading of the model begins with "#### " too. The person's lines end with two spaces, the model's
# do not. aider itself does not look at that: with --restore-chat-history it gives the model's heading back as a message of role user.
# Package: aider-chat 0.86.2 (PyPI, for Python 3.10 to 3.12: PYTHON=python3.12 names another). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check aider-chat==0.86.2
export T
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


import os

def reply(messages):
    with open(os.environ["T"] + "/requests.txt", "a") as log:
        log.write(json.dumps(messages) + "\n")
    return "First this.\n\n#### A heading of the model\n\nThen that.", []


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
mkdir -p "$T/home" "$T/work"
cd "$T/work"
git init -q .
git config user.email nobody@example.com
git config user.name nobody
echo "12 screws" > notes.txt
git add notes.txt
git commit -q -m "Notes"
aider() {
    env -i HOME="$T/home" PATH="$PATH" OPENAI_API_KEY=dummy OPENAI_API_BASE="$URL/v1" LITELLM_LOCAL_MODEL_COST_MAP=True \
        timeout 90 "$T/venv/bin/aider" --model openai/some-model --edit-format diff --map-tokens 0 --yes-always --no-gitignore --no-check-update \
        --no-show-model-warnings --no-show-release-notes --analytics-disable "$@" > "$T/out.txt" 2>&1 < /dev/null || { cat "$T/out.txt"; exit 1; }
}
"$T/venv/bin/aider" --version
aider --message "Please explain."
aider --restore-chat-history --message "Go on."
grep -n '^####' .aider.chat.history.md | sed 's/$/|/'
python3 - "$T/requests.txt" <<'PY'
import json, sys
last = json.loads(open(sys.argv[1]).read().splitlines()[-1])
users = [m["content"].strip() for m in last if m["role"] == "user"]
print("messages of role user after the restore:", [u[:30] for u in users])
assert "A heading of the model" in users, users
history = open(".aider.chat.history.md").read()
assert "#### Please explain.  \n" in history and "#### A heading of the model\n" in history
print("SEEN: the model's heading as the user's words")
PY
