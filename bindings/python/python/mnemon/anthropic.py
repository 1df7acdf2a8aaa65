"""Claude's memory tool on an engine. Needs the package `anthropic`."""

from ._adapters import needs
from ._async import AsyncEngine, engine_of
from ._mnemon import Engine, memory_tool
from ._wait import wait

with needs("mnemon.anthropic", "anthropic", "anthropic"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaMemoryTool20250818Command

CLEARED = "All memory cleared"


class _OfEngine:
    """The constructor of both tools, before that of the SDK's class."""

    def __init__(
        self, engine: Engine | AsyncEngine, namespace: str, *, cache_control: BetaCacheControlEphemeralParam | None = None
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]
        self.engine = engine_of(engine)
        self.namespace = namespace


class MnemonMemoryTool(_OfEngine, BetaAbstractMemoryTool):
    """The files of the memory tool in a namespace: `client.beta.messages.tool_runner(..., tools=[MnemonMemoryTool(engine, "acme/ada")])`.

    A file is a document of the namespace `acme/ada/memories`: its key is its path below `/memories`, and its value is `{"text": ...}`,
    which searches find. What the model does wrong raises `ToolError` in the wording that Anthropic documents, and changes nothing.

    Changes are durable when a call returns. Calls may come from any thread, and from any number of tools, processes of a server and
    machines: a change that another one overtakes begins again. Views end after 60,000 bytes and say how to go on.
    """

    def call(self, input: object) -> str:
        """Runs a command, given as the input of a `tool_use`."""
        return _told(memory_tool(self.engine, self.namespace, input))

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        return self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Deletes all files. Those that are to be forgotten: `engine.forget(f"{namespace}/memories")`."""
        self.engine.delete_namespace(f"{self.namespace}/memories")
        return CLEARED


class MnemonAsyncMemoryTool(_OfEngine, BetaAsyncAbstractMemoryTool):
    """`MnemonMemoryTool` for `AsyncAnthropic`. Its calls run on threads, so the event loop goes on meanwhile."""

    async def call(self, input: object) -> str:
        """Runs a command, given as the input of a `tool_use`."""
        return _told(await wait(memory_tool, self.engine, self.namespace, input))

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        return await self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Deletes all files. Those that are to be forgotten: `engine.forget(f"{namespace}/memories")`."""
        await wait(self.engine.delete_namespace, f"{self.namespace}/memories")
        return CLEARED


def _told(answer: tuple[str, bool]) -> str:
    content, is_error = answer
    if is_error:
        raise ToolError(content)
    return content
