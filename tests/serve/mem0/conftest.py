"""A server for the tests: $MNEMON is the program."""

import json
import os
import subprocess
import tempfile

import httpx
import pytest

os.environ["MEM0_TELEMETRY"] = "False"
# The client keeps a file with an id of its user, by default in the home folder.
os.environ["MEM0_DIR"] = tempfile.mkdtemp()


class Server:
    """`mnemon serve` with a file of tokens, by their names, and more arguments."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.tokens = {}
        entries = []
        for name, options in {
            "all": ["--rights", "read,write,forget,admin"],
            "acme": ["--rights", "read,write,forget", "--prefix", "acme"],
            "reader": ["--rights", "read"],
        }.items():
            made = subprocess.run(
                [self.program(), "token", "--format", "json", "--name", name, *options],
                check=True, capture_output=True, text=True,
            )
            made = json.loads(made.stdout)
            self.tokens[name] = made["token"]
            entry = {key: value for key, value in made["entry"].items() if value is not None}
            # A list and a string are the same in JSON and in TOML.
            entries.append("[[token]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items()))
        (folder / "tokens.toml").write_text("\n".join(entries))
        self.process = subprocess.Popen(
            [
                self.program(), "serve", "--format", "json", "--db", str(folder / "m.redb"),
                "--keep-versions", "--listen", "127.0.0.1:0", "--tokens", str(folder / "tokens.toml"), *arguments,
            ],
            stderr=subprocess.PIPE, text=True,
        )
        for line in self.process.stderr:
            if line.startswith("{") and "listening" in json.loads(line):
                self.url = json.loads(line)["listening"]
                return
        raise RuntimeError("the server did not start")

    @staticmethod
    def program():
        return os.environ["MNEMON"]

    def embed(self):
        """Embeds what was added, which is found by its words alone before."""
        answer = httpx.post(f"{self.url}/v1/flush", headers={"Authorization": f"Token {self.tokens['all']}"})
        answer.raise_for_status()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("mem0"))
    yield server
    server.stop()
