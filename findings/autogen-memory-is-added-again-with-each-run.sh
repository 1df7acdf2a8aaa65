#!/usr/bin/env bash
# Expected: an agent's `memory` is recalled anew for each question, and is in the prompt once.
# Happens: `update_context` adds it to the conversation for good, with every run once more. After six questions it is there six times; where
# `BufferedChatCompletionContext` keeps the last six messages, two of them are copies of the memory, and the answers and questions that they push
# out are lost.
# Package: autogen-agentchat 0.7.5 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check autogen-agentchat==0.7.5
timeout 100 "$T/venv/bin/python" <<'PY'
import asyncio
import importlib.metadata as meta
from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.model_context import BufferedChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage

print("autogen-agentchat", meta.version("autogen-agentchat"))


class Local(ChatCompletionClient):
    """A model with fixed answers, which keeps what it was shown."""

    capabilities = model_info = ModelInfo(
        vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False
    )

    async def create(self, messages, **_):
        self.shown = ["memory" if "rows" in str(message.content) else message.content for message in messages]
        return CreateResult(finish_reason="stop", content="Noted.", usage=RequestUsage(1, 1), cached=False)

    def create_stream(self, *_, **__):
        raise NotImplementedError

    async def close(self):
        pass

    def actual_usage(self):
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, *_, **__):
        return 0

    remaining_tokens = count_tokens


async def main():
    seen = []
    for context in UnboundedChatCompletionContext(), BufferedChatCompletionContext(buffer_size=6):
        memory = ListMemory()
        await memory.add(MemoryContent(content="Ada rows on Thursdays", mime_type="text/plain"))
        model = Local()
        agent = AssistantAgent("helper", model, memory=[memory], model_context=context, system_message=None)
        for i in range(6):
            await agent.run(task=f"question {i}")
        print(type(context).__name__, "after six questions:", model.shown)
        seen.append(model.shown)
    unbounded, buffered = seen
    assert unbounded.count("memory") == 6 and len(unbounded) == 17
    assert buffered == ["Noted.", "question 4", "memory", "Noted.", "question 5", "memory"], buffered


asyncio.run(main())
print("SEEN: copies of the memory in place of the conversation")
PY
