"""The answers of models."""

from typing import Any

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.load import dumps, loads

from mnemon import Engine
from mnemon._values import key_of, puts, read
from mnemon._wait import wait


class MnemonCache(BaseCache):
    """The answers of models by prompt and settings, in a namespace."""

    def __init__(self, engine: Engine, namespace: str) -> None:
        self.engine = engine
        self.namespace = namespace

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        answers = read(self.engine, self.namespace, [key_of(prompt, llm_string)])[1][0]
        return None if answers is None else [loads(answer, allowed_objects="core") for answer in answers]

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        answers = [dumps(answer) for answer in return_val]
        self.engine.document_batch(list(puts(self.namespace, key_of(prompt, llm_string), answers)))

    def clear(self, **_: Any) -> None:
        self.engine.delete_namespace(self.namespace)

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        return await wait(self.lookup, prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        await wait(self.update, prompt, llm_string, return_val)

    async def aclear(self, **_: Any) -> None:
        await wait(self.clear)
