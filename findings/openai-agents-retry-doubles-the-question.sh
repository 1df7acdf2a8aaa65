#!/usr/bin/env bash
# Expected: a run that fails leaves its session as it was, so that the same question can be asked again.
# Happens: the question is stored before the model is asked, and stays when the model's call fails. Asked again, it is in the session twice, and the model is given it
# twice, as if the user had repeated it; after three failures, four times. Nothing in the session says which of them had no answer.
# Package: openai-agents 0.24.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check openai-agents==0.24.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import asyncio
from importlib.metadata import version
from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

print("openai-agents", version("openai-agents"))
set_tracing_disabled(True)
given = []


class Busy(Model):
    """Fails three times, as a busy service does, and then answers."""

    async def get_response(self, system_instructions, input, *args, **kwargs):
        given.append([item["content"] for item in input])
        if len(given) < 4:
            raise RuntimeError("429 Too Many Requests")
        text = ResponseOutputText(type="output_text", text="Paid.", annotations=[])
        message = ResponseOutputMessage(id="m1", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


async def main():
    session = SQLiteSession("ada", "session.db")
    agent = Agent(name="helper", model=Busy())
    for _ in range(4):
        try:
            await Runner.run(agent, "Pay Bo 50 euros", session=session)
        except RuntimeError as error:
            print("run:", error)
    roles = [item["role"] for item in await session.get_items()]
    print("given to the model by the last run:", given[-1], "| roles in the session:", roles)
    assert given[-1] == ["Pay Bo 50 euros"] * 4 and roles == ["user"] * 4 + ["assistant"]


asyncio.run(main())
print("SEEN: a question that is there once for each try")
PY
