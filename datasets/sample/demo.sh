#!/usr/bin/env bash
# The tour behind `make demo`: ingest the sample, ask it a few questions, measure it. Usage: demo.sh MNEMON
set -euo pipefail
mnemon=$1
sample=$(cd "$(dirname "$0")" && pwd)
db=${MNEMON_DEMO_DB:-mnemon-demo.redb}
rm -f "$db"

echo "== mnemon ingest: $(wc -l <"$sample/messages.jsonl") messages into $db"
"$mnemon" ingest --db "$db" "$sample/messages.jsonl"

ask() {
    echo
    echo "== [$1] $2"
    "$mnemon" recall --db "$db" --namespace "$1" -k 3 "$2"
}
echo
echo "== mnemon recall: rank, score, date, session, who said it"
ask friends/ines-tom "What musical instrument is she learning?"
ask friends/ines-tom "What work did Tom do on the hull?"
ask acme/priya "Which meeting times does she prefer?"
ask acme/priya "the deployment that failed with an error"
ask home/okafor "What happened to the tomato plants?"

echo
echo "== mnemon eval: the sample's labelled questions"
"$mnemon" eval --messages "$sample/messages.jsonl" --queries "$sample/queries.jsonl"

echo
echo "The database is $db. Try next:"
echo "  $mnemon recall --db $db --namespace friends/ines-tom --since 2024-06-01 'What colour is the boat painted?'"
echo "  $mnemon namespaces --db $db"
echo "  $mnemon stats --db $db"
