"""The answers of models."""

import json
from typing import Any

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.load import dumps, loads

from mnemon import AsyncEngine, Engine
from mnemon._async import engine_of
from mnemon._values import ALL, Place, deletes, key_of, read, replace
from mnemon._wait import wait

# In the documents of answers.
KEY = "langchain_cache"


class MnemonCache(BaseCache):
    """The answers of models by prompt and settings, in a namespace."""

    def __init__(self, engine: Engine | AsyncEngine, namespace: str) -> None:
        self.engine = engine_of(engine)
        self.namespace = namespace

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        [text] = read(self.engine, [self._place(prompt, llm_string)])[1]
        return None if text is None else [loads(answer, allowed_objects="core") for answer in json.loads(text)]

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        text = json.dumps([dumps(answer) for answer in return_val])
        replace(self.engine, {self._place(prompt, llm_string): (text, {KEY: True})})

    def clear(self, **_: Any) -> None:
        """Deletes the answers, and nothing else of the namespace."""
        found = self.engine.documents(self.namespace).search(where={KEY: True}, limit=ALL)
        self.engine.document_batch([operation for one in found for operation in deletes((self.namespace, one.key), one.value)])

    def _place(self, prompt: str, llm_string: str) -> Place:
        return self.namespace, key_of(prompt, llm_string)

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        return await wait(self.lookup, prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        await wait(self.update, prompt, llm_string, return_val)

    async def aclear(self, **_: Any) -> None:
        await wait(self.clear)
