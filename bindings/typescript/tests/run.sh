#!/bin/sh
# Tests the package as it is published: tests/run.sh PATH/TO/mnemon FOLDER
#
# FOLDER has the development dependencies in `node_modules`. The packages are built there and installed into FOLDER/user, where the tests, the
# examples and the README's programs are compiled and run. With MNEMON_UPDATE=1 the types are generated again.
# TESTS names files for Node's test runner, FRAMEWORKS words in names of the adapters' tests; with one of them only those run.
set -eu
binary=$1
folder=$2
checkout=$(cd "$(dirname "$0")/../../.." && pwd)
source=$checkout/bindings/typescript
cd "$folder"
rm -rf src dist user
generate() {
	node_modules/.bin/openapi-typescript "$checkout/docs/openapi.json" --default-non-nullable=false "$@" >generated.log 2>&1
}
[ -z "${MNEMON_UPDATE:-}" ] || generate --output "$source/src/schema.ts"
cp -r "$source/src" "$source/tsconfig.json" .
generate --output src/schema.ts --check || {
	cat generated.log
	echo "src/schema.ts is not made of docs/openapi.json as it is now: MNEMON_UPDATE=1 make test-typescript"
	exit 1
}
node_modules/.bin/tsc -p tsconfig.json
platform=$(node -p 'process.platform + "-" + process.arch')
node "$source/platform.mjs" --dist dist --out user/node_modules "$platform=$binary"
echo '{ "private": true, "type": "module" }' >user/package.json
cp -r "$source/tests" "$source/examples" user/
node user/tests/readme.mjs user/readme "$source/README.md" "$checkout/README.md"
node_modules/.bin/tsc -p user/tests/tsconfig.json
# A page's program has the types of browsers alone, and looks into those of its packages.
node_modules/.bin/tsc --noEmit --strict --module nodenext --target es2022 --lib es2022,dom --typeRoots none user/tests/page.ts
cd user
[ -n "${FRAMEWORKS:-}" ] || CHECKOUT=$checkout TOOLS=$folder node --test --test-reporter=spec --test-concurrency=2 ${TESTS:-tests/*.test.js}
[ -n "${TESTS:-}" ] || ../node_modules/.bin/vitest run --config tests/frameworks/vitest.config.ts ${FRAMEWORKS:-}
