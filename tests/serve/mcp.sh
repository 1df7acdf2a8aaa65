#!/usr/bin/env bash
# Tests running servers with the MCP project's own tools: all scenarios of its conformance suite for servers, and its inspector, which
# calls every tool over HTTP and lists them through the shim.
# Usage: tests/serve/mcp.sh MNEMON NODE_MODULES, of which MNEMON is a debug build: no other has the suite's fixture.
set -euo pipefail
mnemon=$1 modules=$2
export PATH=$modules/.bin:$PATH
# The scenarios of the suite that need no tools, resources or prompts of its own: the server passes them itself.
scenarios=(server-initialize ping tools-list resources-list prompts-list dns-rebinding-protection)

folder=$(mktemp -d)
export XDG_RUNTIME_DIR=$folder
servers=()
trap '[ ${#servers[@]} -eq 0 ] || { kill "${servers[@]}" 2>/dev/null || true; wait; }; rm -rf "$folder"' EXIT
# Starts a server with a database of this name and with these options, and sets `url` to its address.
start() {
    local name=$1
    shift
    "$mnemon" --format json serve --db "$folder/$name.redb" --listen 127.0.0.1:0 "$@" 2>"$folder/$name.log" &
    servers+=($!)
    for _ in $(seq 100); do
        url=$(sed -n 's/.*"listening":"\([^"]*\)".*/\1/p' "$folder/$name.log")
        [ -z "$url" ] || return 0
        sleep 0.1
    done
    cat "$folder/$name.log" >&2
    exit 1
}
# Runs a scenario on a server. The suite's exit status is 0 after warnings, and if nothing was checked: its summary must say otherwise.
conform() {
    conformance server --url "$1/mcp" --scenario "$2" >"$folder/scenario" 2>&1 &&
        grep -qE '^Passed: ([1-9][0-9]*)/\1, 0 failed, 0 warnings$' "$folder/scenario" || { cat "$folder/scenario" >&2; exit 1; }
}

start fixture --conformance-fixture
fixture=$url
start memory

for scenario in "${scenarios[@]}"; do
    conform "$url" "$scenario"
    echo "conformance: $scenario passed"
done
mapfile -t all < <(conformance list --server | sed -n 's/^  - \([a-z0-9-]*\).*/\1/p')
[ ${#all[@]} -ge 32 ] || { echo "the list of scenarios was not read" >&2; exit 1; }
for scenario in "${all[@]}"; do
    [[ " ${scenarios[*]} " != *" $scenario "* ]] || continue
    conform "$fixture" "$scenario"
    echo "conformance: $scenario passed with the fixture"
done

inspect() {
    mcp-inspector --cli "$url/mcp" --transport http "$@"
}
call() {
    local tool=$1
    shift
    local arguments=()
    for argument in "$@"; do arguments+=(--tool-arg "$argument"); done
    inspect --method tools/call --tool-name "$tool" "${arguments[@]}" >"$folder/answer" || { cat "$folder/answer" >&2; exit 1; }
    if grep -q '"isError": true' "$folder/answer"; then cat "$folder/answer" >&2; exit 1; fi
    echo "inspector: $tool answered"
    called+=("$tool")
}
called=()
call add_memory text="Ada is allergic to peanuts." user_id=ada
id=$(sed -n 's/^ *"\([0-9a-f-]\{36\}\)".*/\1/p' "$folder/answer" | head -1)
call search_memories query="What is Ada allergic to?" user_id=ada
call get_memories user_id=ada
call get_memory memory_id="$id" user_id=ada
call update_memory memory_id="$id" user_id=ada text="Ada is allergic to soy."
call why memory_id="$id" user_id=ada
call assemble_context prompt="What may Ada eat?" user_id=ada
call remember_document key=profile 'value={"city": "Porto"}' user_id=ada
call get_document key=profile user_id=ada
call get_documents user_id=ada
call search_documents query="Where does Ada live?" user_id=ada
call memory command=create path=/memories/sport.md file_text="Ada rows." user_id=ada
call memory command=view path=/memories user_id=ada
call list_entities
call forget by=messages 'ids=["'"$id"'"]' user_id=ada
call add_memory text="Ada rows." user_id=ada
id=$(sed -n 's/^ *"\([0-9a-f-]\{36\}\)".*/\1/p' "$folder/answer" | head -1)
call delete_memory memory_id="$id" user_id=ada
call delete_all_memories user_id=ada

inspect --method tools/list >"$folder/tools"
mcp-inspector --cli "$mnemon" mcp --db "$folder/memory.redb" --method tools/list >"$folder/shim-tools"
cmp "$folder/tools" "$folder/shim-tools"
for tool in $(sed -n 's/^      "name": "\([a-z_]*\)".*/\1/p' "$folder/tools"); do
    printf '%s\n' "${called[@]}" | grep -qx "$tool" || { echo "no call of the tool $tool" >&2; exit 1; }
done
[ "$(grep -c '^      "name": "' "$folder/tools")" -ge 15 ] || { echo "the list of tools was not read" >&2; exit 1; }
echo "inspector: the same tools over HTTP and through the shim"
