"""An agent's session: what was said in another one is in the prompt."""

import mnemon


def answer(messages: list[dict[str, object]]) -> str:
    """Stands for the chat model."""
    return f"An answer to {len(messages)} messages."


with mnemon.Engine("memory.redb") as engine:
    engine.put("acme/user-42", [mnemon.Message("I moved my rowing lesson to Thursday.", session="monday")])
    engine.flush()
    memory = engine.memory(
        "acme/user-42",
        "tuesday",
        blocks=[mnemon.StaticBlock("about", "You are Atlas."), mnemon.VectorBlock("memories", priority=1)],
    )
    question = mnemon.Message("When is my rowing lesson?")
    prompt = memory.assemble(question)
    for message in prompt.messages:
        print(f"{message.role}: {message.text}")
    memory.put([question, mnemon.Message(answer(prompt.to_openai()), "assistant")])
    memory.flush()
