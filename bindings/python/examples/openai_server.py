"""A chat that remembers, with any OpenAI-compatible server: OPENAI_BASE_URL, OPENAI_MODEL and OPENAI_API_KEY say which.

Without OPENAI_BASE_URL a server in this program stands for one: it answers with what it was given.
"""

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from mnemon import Engine, Message, VectorBlock


class StandIn(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        # Content is a text, a list of parts, or None beside calls of tools.
        answer = f"I was given: {' | '.join(str(message['content']) for message in messages)}"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [{"message": {"content": answer}}]}).encode())

    def log_message(self, *_: Any) -> None: ...


server = HTTPServer(("127.0.0.1", 0), StandIn)
Thread(target=server.serve_forever, daemon=True).start()
url = os.environ.get("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}")
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
with Engine("memory.redb") as engine:
    for session, text in [("monday", "I moved my rowing lesson to Thursday."), ("tuesday", "When is my rowing lesson?")]:
        memory, question = engine.memory("acme/user-42", session, blocks=[VectorBlock("memories")]), Message(text)
        body = {"model": os.environ.get("OPENAI_MODEL", "stand-in"), "messages": memory.assemble(question).to_openai()}
        with urlopen(Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)) as response:
            answer = json.load(response)["choices"][0]["message"]["content"]
        print(f"{text} -> {answer}")
        memory.put([question, Message(answer, "assistant")])
        memory.flush()
