"""mem0's own client against `mnemon serve` with a language model, which is a scripted one."""

import http.server
import json
import threading

import pytest
from mem0 import MemoryClient
from mem0.exceptions import MemoryError

from conftest import Server


class Model(http.server.BaseHTTPRequestHandler):
    """Inserts what somebody says first, updates it by what follows, and deletes it at last."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        conversation = request["messages"][1]["content"].split("Conversation:\n")[1]
        changes = {
            "I row": {"insert": [{"text": "Ada rows."}]},
            "I swim": {"update": [{"id": 1, "item": {"text": "Ada swims."}}]},
            "I rest": {"delete": [1]},
        }
        changed = next((change for said, change in changes.items() if said in conversation), None)
        answer = {"choices": [{"message": {"role": "assistant", "content": json.dumps(changed)}}]}
        body = json.dumps(answer if changed else {"error": {"message": "I am down."}}).encode()
        self.send_response(200 if changed else 500)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{model.server_port}/v1"
    server = Server(tmp_path_factory.mktemp("infer"), "--llm", url, "--llm-model", "small")
    yield MemoryClient(api_key=server.tokens["acme"], host=server.url)
    server.stop()
    model.shutdown()


def test_infer(client):
    def add(text, **options):
        return [(memory["memory"], memory["event"]) for memory in client.add(text, user_id="ada", **options)["results"]]

    def texts():
        return [memory["memory"] for memory in client.get_all(filters={"user_id": "ada"})["results"]]

    assert add("I row.", metadata={"topic": "sport"}) == [("Ada rows.", "ADD")]
    assert add("I swim now.", infer=True) == [("Ada swims.", "UPDATE")]
    [found] = client.search("What does Ada do?", filters={"user_id": "ada"})["results"]
    assert (found["memory"], found["metadata"], found["user_id"]) == ("Ada swims.", {"topic": "sport"}, "ada")
    assert [event["event"] for event in client.history(found["id"])] == ["ADD", "UPDATE"]
    client.update(found["id"], text="Ada swims daily.")
    assert client.get(found["id"])["memory"] == "Ada swims daily."
    assert add("As it is.", infer=False) == [("As it is.", "ADD")]
    assert sorted(texts()) == ["Ada swims daily.", "As it is."]
    assert add("I rest.") == [("Ada swims daily.", "DELETE")]
    with pytest.raises(MemoryError, match="infer=False"):
        add("Say nothing.")
    assert texts() == ["As it is."]
    client.delete_all(user_id="ada")
    assert texts() == []
