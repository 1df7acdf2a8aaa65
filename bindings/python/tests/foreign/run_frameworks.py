"""Runs the tests that the frameworks of `make test-frameworks` carry in their source packages, as `run.py` does with those of others."""

import sys

from run import PRIVATE, Suite, main

FILES = "looks at the files of another repository"

SUITES = [
    Suite(
        "crewai==1.15.28",
        "swap_crewai",
        ["memory"],
        {"test_(flush_to_central|dual_shard_search|orphaned_shard_cleanup)": PRIVATE},
    ),
    Suite(
        "strands-agents==1.62.0",
        "swap_strands",
        [
            "strands/session/test_repository_session_manager.py", "strands/session/test_file_session_manager.py",
            "strands/agent/test_agent.py", "strands/agent/test_agent_as_tool.py", "strands/agent/test_agent_delegation.py",
            "strands/multiagent/test_graph.py", "strands/multiagent/test_swarm.py", "strands/test_tracking_id_history_invariant.py",
        ],
        {
            "test_file_session_manager.py::test_(create|delete)_(session|agent|message|multi_agent).*": FILES,
            "test_message_durable_id_persists": FILES,
            "test_corrupted_json_file": FILES,
            "test__get_.*_path_.*": FILES,
            "test_baggage_attributes_stamped_on_agent_span": "needs a package of OpenTelemetry that is not installed; makes no session",
        },
    ),
    Suite(
        "autogen-core==0.7.5",
        "swap_autogen",
        ["test_memory.py"],
        {
            "test_memory_component_.*": "writes what a list has into its configuration; ours names a file",
            "test_list_memory_(add_and_query|content_types)": "asks for what was added first; ours is in order of relevance",
            "test_list_memory_update_context": "has an empty context, to which a list adds all; ours recalls nothing for it",
        },
    ),
]

if __name__ == "__main__":
    sys.exit(main(SUITES))
