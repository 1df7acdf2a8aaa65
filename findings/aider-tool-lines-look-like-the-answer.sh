#!/usr/bin/env bash
# Expected: in .aider.chat.history.md each line of aider's own begins with "> ", as blockquotes do, and lines without a mark are the model's.
# Happens: a text of aider of several lines has the mark on its first line only. The rest of it (here the report of an edit that failed,
# with a copy of the model's block) stands bare, between two answers, in the form of an answer.
# Package: aider-chat 0.86.2 (PyPI, for Python 3.10 to 3.12: PYTHON=python3.12 names another). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check aider-chat==0.86.2
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    if "failed to match" in str(messages):
        return "I give up.", []
    return "I change it.\n\nnotes.txt\n```\n<<<<<<< SEARCH\n99 screws\n=======\n14 screws\n>>>>>>> REPLACE\n```\n", []


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
aider notes.txt --message "Please change the screws."
sed -n '/failed to match/,$p' .aider.chat.history.md
python3 <<'PY'
lines = open(".aider.chat.history.md").read().splitlines()
first = next(n for n, line in enumerate(lines) if "SEARCH/REPLACE block failed to match" in line)
assert lines[first].startswith("> "), lines[first]
rest = lines[first + 1:lines.index("I give up.")]
report = [line for line in rest if line]
assert len(report) > 5 and not any(line.startswith("> ") for line in report), report
print("SEEN: lines of aider's report without a mark:", len(report))
PY
