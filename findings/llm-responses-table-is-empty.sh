#!/usr/bin/env bash
# Expected: the table responses of llm's logs.db, with its columns prompt and response, has a row for each prompt.
# Happens: in a new database the tables responses and conversations are there, and empty: prompts and answers are in messages and parts, with threads
# and turns above them. A reader of responses finds no words and no error. The same first prompt in two conversations is one row.
# Package: llm 0.36 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check llm==0.36
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    return "The shed should be green.", []


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
mkdir -p "$T/user"
cat > "$T/user/extra-openai-models.yaml" <<YAML
- model_id: local
  model_name: some-model
  api_base: "$URL/v1"
YAML
llm() {
    env -i PATH="$PATH" LLM_USER_PATH="$T/user" OPENAI_API_KEY=dummy timeout 60 "$T/venv/bin/llm" "$@" < /dev/null
}
llm --version
llm -m local --no-stream "What is the colour of the shed?"
llm -m local --no-stream -c "And the colour of the door?"
llm -m local --no-stream "What is the colour of the shed?"
python3 - "$T/user/logs.db" <<'PY'
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
count = {t: base.execute(f"select count(*) from {t}").fetchone()[0] for t in ("responses", "conversations", "threads", "turns", "messages")}
print(count)
same = base.execute("select count(*) from parts where text = 'What is the colour of the shed?'").fetchone()[0]
print("rows with the prompt that was asked in two conversations:", same)
assert count["responses"] == count["conversations"] == 0 and count["threads"] == 2 and count["turns"] == 3
assert same == 1
print("SEEN: empty tables for three prompts")
PY
