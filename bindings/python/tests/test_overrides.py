"""What an adapter leaves to the framework's class above it: a method that does nothing there would lose something without a word.

Each row has all that is inherited from the framework, by what it does there. A new version with another method fails here, until somebody
has looked whether it is to be implemented. Rows whose framework is not installed are skipped: `make test-python` and `make test-frameworks`
have half of them each.
"""

import ast
import importlib
import inspect
import textwrap
from typing import Any, NamedTuple

import pytest


class Left(NamedTuple):
    """What a class leaves to the framework's."""

    # The package whose classes count, but for those named here, which have nothing of memories.
    package: str
    but: tuple[str, ...] = ()
    # Methods that do nothing, and why that is right.
    nothing: dict[str, str] = {}
    # Methods that raise `NotImplementedError`.
    refuses: str = ""
    # Methods that call ours, or are of no memory.
    works: str = ""
    # A protocol, which we implement without inheriting anything.
    protocol: str = ""


# Components, companies, schedules, approvals, roles and tokens of AgentOS, transcripts of coding agents, and payloads of results that Agno
# offloads to `SqliteDb` and `PostgresDb` alone.
AGENT_OS = """
    add_product_routine append_transcript_entries assign_authz_role authz_name_is_role cancel_pending_run claim_due_schedule
    complete_task_run count_authz_audit_events count_authz_users count_authz_users_by_day count_authz_users_by_status
    count_company_acceptances create_approval create_component_with_config create_product create_project create_schedule create_schedule_run
    create_service_account create_source create_task delete_approval delete_auth_token delete_authz_policy delete_authz_role
    delete_authz_role_meta delete_authz_user delete_component delete_config delete_product delete_project delete_schedule
    delete_schedule_runs delete_service_account delete_source delete_task delete_tool_results delete_transcript disable_schedules_for_target
    get_approval get_approvals get_auth_token get_authz_direct_roles get_authz_direct_roles_many get_authz_policies get_authz_role_meta
    get_authz_role_policies get_authz_user get_component get_config get_current_config get_dependents get_expired_tool_results
    get_latest_config get_latest_schedule_runs get_links get_pending_approval_count get_product get_product_counts get_products get_project
    get_project_counts get_projects get_schedule get_schedule_by_name get_schedule_run get_schedule_runs get_schedules get_service_account
    get_service_account_by_name get_service_account_by_token_hash get_service_accounts get_source get_sources get_span_stats get_task
    get_tasks get_tool_result get_tool_results_for_session get_transcript_entries is_authz_user_disabled list_authz_role_meta
    list_authz_role_subjects list_authz_roles list_authz_user_ids list_authz_users list_components list_configs list_transcript_sessions
    list_transcript_subpaths load_component_graph read_authz_audit_events reassign_session_owner record_authz_audit_event
    record_authz_decision release_schedule replace_authz_subject_roles restore_component restore_product restore_project restore_source
    restore_task set_authz_role_policies set_authz_user_disabled set_current_version stamp_schedule_provenance start_task_run
    transition_project transition_task unassign_authz_role update_approval update_approval_run_status update_product update_project
    update_schedule update_schedule_run update_service_account update_source update_task upsert_auth_token upsert_authz_policy
    upsert_authz_role_meta upsert_authz_user upsert_component upsert_config upsert_tool_result
"""
TRACES_AND_OAUTH = """
    consume_mcp_oauth_transaction create_mcp_oauth_client create_span create_spans delete_mcp_oauth_code delete_mcp_oauth_refresh
    delete_mcp_oauth_refresh_family get_mcp_oauth_client get_mcp_oauth_code get_mcp_oauth_keys get_mcp_oauth_refresh
    get_mcp_oauth_transaction get_span get_spans get_trace get_traces insert_mcp_oauth_key mark_mcp_oauth_client_consumed
    store_mcp_oauth_code store_mcp_oauth_refresh store_mcp_oauth_transaction upsert_trace
"""
TOOLS = """
    add_function add_tool apply approval_required call_tool defer_loading filtered for_run for_run_step get_instructions
    get_tool_for_tool_def get_tools id include_return_schemas instructions label prefixed prepared renamed tool tool_for_tool_def
    tool_plain visit_and_replace with_metadata
"""
RUNNABLE = ("Runnable", "RunnableSerializable", "Serializable")
DURABLE = "what was stored is durable when its call returns"

ROWS = {
    "adk.MnemonSessionService": Left("google", nothing={"flush": DURABLE}),
    "adk.MnemonMemoryService": Left("google"),
    "agent_framework.MnemonHistoryProvider": Left("agent_framework", works="after_run before_run"),
    "agent_framework.MnemonContextProvider": Left("agent_framework"),
    "agno.MnemonDb": Left(
        "agno",
        nothing={"close": "the engine is its owner's", "table_exists": "a table of documents is there when it is asked"},
        refuses=AGENT_OS + TRACES_AND_OAUTH,
        works="from_dict get_latest_configs get_latest_schema_version get_trace_stats to_dict upsert_schema_version",
    ),
    "agno.MnemonAsyncDb": Left(
        "agno",
        nothing={"close": "the engine is its owner's"},
        refuses=AGENT_OS + "get_latest_configs",
        works="from_dict to_dict",
    ),
    "autogen.MnemonMemory": Left("autogen_core", works="dump_component load_component"),
    "crewai.MnemonStorage": Left("crewai", protocol="crewai.memory.storage.backend.StorageBackend"),
    "haystack.MnemonDocumentStore": Left("haystack", protocol="haystack.document_stores.types.DocumentStore"),
    "pydantic_ai.MnemonConversationStore": Left(
        "pydantic_ai", works="branch delete fork list_conversations load load_entries save"
    ),
    "pydantic_ai.MnemonToolset": Left(
        "pydantic_ai", nothing={"tool_name_conflict_hint": "it is a text of an error, and empty"}, works=TOOLS
    ),
    "strands.MnemonSessionRepository": Left("strands"),
    "langchain.MnemonByteStore": Left("langchain_core"),
    "langchain.MnemonCache": Left("langchain_core"),
    "langchain.MnemonChatMessageHistory": Left("langchain_core", works="add_ai_message add_message add_user_message"),
    "langchain.MnemonEmbeddings": Left("langchain_core"),
    "langchain.MnemonIndex": Left("langchain_core", but=RUNNABLE, works="ainvoke invoke"),
    "langchain.MnemonVectorStore": Left(
        "langchain_core",
        works="aadd_documents add_documents afrom_documents as_retriever asearch asimilarity_search_with_relevance_scores from_documents "
        "search similarity_search_with_relevance_scores",
    ),
    "langgraph.MnemonSaver": Left(
        "langgraph",
        nothing={"config_specs": "it lists settings, and there are none"},
        works="aget aget_delta_channel_history get get_delta_channel_history with_allowlist",
    ),
    "langgraph.MnemonStore": Left(
        "langgraph", works="adelete aget alist_namespaces aput asearch delete get list_namespaces put search"
    ),
    "llama_index.MnemonBlock": Left(
        "llama_index", nothing={"atruncate": "a block that has no room leaves the prompt whole, and stays stored"}, works="aget aput"
    ),
    "llama_index.MnemonChatStore": Left("llama_index"),
    "llama_index.MnemonEmbedding": Left(
        "llama_index",
        but=("BaseComponent",),
        works="acall aget_agg_embedding_from_queries aget_query_embedding aget_text_embedding aget_text_embedding_batch "
        "check_base_embeddings_class get_agg_embedding_from_queries get_query_embedding get_text_embedding get_text_embedding_batch "
        "similarity to_payload",
    ),
    "llama_index.MnemonVectorStore": Left("llama_index", but=("BaseComponent",), nothing={"persist": DURABLE}),
    "openai_agents.MnemonSession": Left("agents", protocol="agents.memory.session.SessionABC"),
    "anthropic.MnemonMemoryTool": Left("anthropic", works="name to_dict"),
    "anthropic.MnemonAsyncMemoryTool": Left("anthropic", works="name to_dict"),
}


def function_of(member: Any) -> Any:
    member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return inspect.unwrap(member) if callable(member) else None


def is_constant(value: ast.expr | None) -> bool:
    match value:
        case None | ast.Constant():
            return True
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return all(map(is_constant, elements))
        case ast.Dict(keys=keys):
            return not keys
    return False


def kind(function: Any) -> str:
    """What a method does, by its source: the field of `Left` that has its name."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    body = [one for one in definition.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if body and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0]):
        return "refuses"
    if all(isinstance(one, ast.Pass) or (isinstance(one, ast.Return) and is_constant(one.value)) for one in body):
        return "nothing"
    return "works"


def inherited(adapter: type, left: Left) -> dict[str, str]:
    """The public methods and properties of the framework, by what they do."""
    found = {}
    for name in dir(adapter):
        owner = next(one for one in adapter.__mro__ if name in vars(one)) if not name.startswith("_") else object
        if owner.__module__.split(".")[0] == left.package.split(".")[0] and owner.__name__ not in left.but:
            if function := function_of(vars(owner)[name]):
                found[name] = kind(function)
    return found


@pytest.mark.parametrize("row", ROWS)
def test_what_is_left_to_the_framework_is_known(row: str) -> None:
    module, _, name = row.partition(".")
    try:
        adapter = getattr(importlib.import_module(f"mnemon.{module}"), name)
    except ImportError as error:
        pytest.skip(f"its framework is not installed here: {error}")
    left = ROWS[row]
    if left.protocol:
        path, _, protocol = left.protocol.rpartition(".")
        wanted = {one for one in dir(getattr(importlib.import_module(path), protocol)) if not one.startswith("_")}
        assert {one for one in wanted if not hasattr(adapter, one)} - ATTRIBUTES == set()
        return
    expected = dict.fromkeys(left.nothing, "nothing") | dict.fromkeys(left.refuses.split(), "refuses")
    expected |= dict.fromkeys(left.works.split(), "works")
    found = inherited(adapter, left)
    assert {one: found.get(one) for one in found.keys() | expected if found.get(one) != expected.get(one)} == {}


# Fields of a session, which its constructor sets.
ATTRIBUTES = {"session_settings"}


def test_every_adapter_has_a_row() -> None:
    for module in {row.partition(".")[0] for row in ROWS}:
        try:
            classes = vars(importlib.import_module(f"mnemon.{module}"))
        except ImportError:
            continue
        # Haystack's retrievers are components, which inherit nothing.
        names = {f"{module}.{name}" for name, one in classes.items() if inspect.isclass(one) and name.startswith("Mnemon")}
        assert {name for name in names if not name.endswith("Retriever")} - {"mnemon.MnemonError"} == {
            row for row in ROWS if row.startswith(f"{module}.")
        }
