#!/usr/bin/env bash
# Compiles the whole programs in README.md, models/README.md and docs as a user's package would, and runs the README's first
# two one after the other in an empty folder, on one database. Usage: TARGET=target tests/user_package.sh
#
# A program is a ```rust block with `fn main`. It gets the features of the `cargo add mnemon` line before it, or the default
# ones if there is none. The package is made in the target folder, with the lock file of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
mkdir -p "${TARGET:=target}"
export CARGO_TARGET_DIR=$(cd "$TARGET" && pwd)
package=$CARGO_TARGET_DIR/user-package
cargo=${CARGO:-cargo}
rm -rf "$package"
mkdir -p "$package/src" "$package/run"
cp Cargo.lock "$package/"

# Writes each program to programs/DOCUMENT-NUMBER.rs, and the features that it needs to a file beside it.
mkdir "$package/programs"
for document in README.md models/README.md docs/*.md; do
    awk -v stem="$package/programs/$(echo "${document%.md}" | tr / -)" '
        /^(\$ )?cargo add mnemon/ {
            features = ""
            for (i = 1; i <= NF; i++) if ($i == "--features" || $i == "-F") features = $(i + 1)
        }
        /^```rust/ { inside = 1; text = ""; next }
        /^```/ && inside {
            inside = 0
            if (text ~ /fn main\(/) {
                number++
                printf "%s", text > (stem "-" number ".rs")
                print features > (stem "-" number ".features")
            }
        }
        inside { text = text $0 "\n" }
    ' "$document"
done

# Compiles a program into $CARGO_TARGET_DIR/debug/NAME.
compile() {
    local name=$1 features
    features=$(tr -d '"' <"$package/programs/$name.features")
    echo "== $name.rs: cargo add mnemon${features:+ --features $features}"
    cp "$package/programs/$name.rs" "$package/src/main.rs"
    cat >"$package/Cargo.toml" <<MANIFEST
[package]
name = "${name,,}"
edition = "2024"

[dependencies]
mnemon = { path = "$root", features = [$(echo "$features" | sed 's/[^,][^,]*/"&"/g')] }

[workspace]
MANIFEST
    (cd "$package" && $cargo build --quiet)
}

for program in "$package"/programs/*.rs; do
    compile "$(basename "$program" .rs)"
done

# The second program needs a chat model for its facts; without one it keeps their batch for later.
runtime=$(ls "$root"/.runtime/libonnxruntime.* 2>/dev/null | head -1 || true)
export ORT_DYLIB_PATH=${ORT_DYLIB_PATH:-$runtime}
[ -n "$ORT_DYLIB_PATH" ] || unset ORT_DYLIB_PATH
cd "$package/run"
for program in readme-1 readme-2; do
    echo "== $program"
    started=$(date +%s%N)
    output=$("$CARGO_TARGET_DIR/debug/$program")
    echo "$output"
    echo "$output" | grep -q "rowing lesson to Thursday" || { echo "$program does not print the memory" >&2; exit 1; }
    echo "-- $((($(date +%s%N) - started) / 1000000)) ms"
done
