#!/bin/sh
# Packs npm's packages from the archives of commands in DIST: npm.sh DIST FOLDER. FOLDER has TypeScript in `node_modules`; all else is made.
set -eu
dist=$(realpath "$1") folder=$(realpath "$2")
rm -rf "$folder/dist" "$folder/src" "$folder/packages" "$folder/commands"
cp -r bindings/typescript/src bindings/typescript/tsconfig.json "$folder/"
(cd "$folder" && node_modules/.bin/tsc -p tsconfig.json)
mkdir "$folder/commands"
set --
for archive in "$dist"/mnemon-*.tar.gz; do
    tar -xzf "$archive" -C "$folder/commands"
    command=$folder/commands/$(basename "$archive" .tar.gz)/mnemon
    case $archive in
    *-x86_64-unknown-linux-musl.*) set -- "$@" "linux-x64=$command" ;;
    *-aarch64-unknown-linux-musl.*) set -- "$@" "linux-arm64=$command" ;;
    *-x86_64-apple-darwin.*) set -- "$@" "darwin-x64=$command" ;;
    *-aarch64-apple-darwin.*) set -- "$@" "darwin-arm64=$command" ;;
    esac
done
node bindings/typescript/platform.mjs --dist "$folder/dist" --out "$folder/packages" "$@"
for package in "$folder"/packages/*; do npm pack --silent --pack-destination "$dist" "$package"; done
