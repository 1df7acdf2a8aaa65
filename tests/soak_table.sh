#!/bin/sh
# Prints the sums of the counts in a file, a line each: a name, a tab, a number. The tests append to it.
set -eu
awk -F '\t' '
    { count[$1] += $2 }
    END {
        split("kills images faults pages", tried, " ")
        for (i = 1; i in tried; i++) printf "%-16s %12d\n", tried[i], count[tried[i]]
        printf "%-16s %12d\n", "fuzz executions", count["fuzz executions"]
        split("lost torn wrong panicked", found, " ")
        for (i = 1; i in found; i++) { printf "%-16s %12d\n", found[i], count[found[i]]; bad += count[found[i]] }
        exit bad > 0
    }' "$1"
