"""An agent of the OpenAI Agents SDK whose session goes on after a restart, and is found by recalls. Needs `openai-agents`."""

from agents import Agent, RunConfig, Runner
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message

from mnemon import Engine
from mnemon.openai_agents import MnemonSession


def answer(call: ModelCall) -> ModelStep:
    """Stands for the model: it says what it was given."""
    said = [str(item["content"]) for item in call.input if item.get("role") == "user"]
    return ModelStep([assistant_message(f"So far you said: {' '.join(said)}")])


model = ScriptedModel([ModelStep.respond(answer), ModelStep.respond(answer)])
agent = Agent(name="Atlas", instructions="Answer in one sentence.", model=model)
for text in ["I moved my rowing lesson to Thursday.", "When is my rowing lesson?"]:
    with Engine("memory.redb") as engine:
        session = MnemonSession(engine, "acme/user-42", "monday")
        # Without this the SDK sends traces to OpenAI.
        result = Runner.run_sync(agent, text, session=session, run_config=RunConfig(tracing_disabled=True))
        print(f"{text} -> {result.final_output}")

with Engine("memory.redb") as engine:
    for hit in engine.recall("acme/user-42", "What day do I row?", k=1):
        print(f"found later: {hit.message.role}: {hit.message.text}")
