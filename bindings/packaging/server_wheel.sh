#!/bin/sh
# Packs a built command as the Python package `mnemon-engine-server`: server_wheel.sh PYTHON COMMAND PLATFORM FOLDER. PYTHON has the
# package `wheel`, PLATFORM is the tag of a platform, such as manylinux_2_28_x86_64.
set -eu
python=$1 command=$2 platform=$3 out=$4
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
package=$folder/mnemon_engine_server info=$folder/mnemon_engine_server-$version.dist-info
mkdir -p "$package" "$info/licenses" "$out"
cp bindings/python/server/mnemon_engine_server/*.py "$package/"
install -m 755 "$command" "$package/"
cp LICENSE-APACHE LICENSE-MIT "$info/licenses/"
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: mnemon
Root-Is-Purelib: false
Tag: py3-none-$platform
END
cat >"$info/METADATA" - bindings/python/server/README.md <<END
Metadata-Version: 2.4
Name: mnemon-engine-server
Version: $version
Summary: The command of mnemon, a long-term memory for LLM agents: its server over HTTP and MCP
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Requires-Python: >=3.11
Description-Content-Type: text/markdown

END
cat >"$info/entry_points.txt" <<END
[console_scripts]
mnemon-engine-server = mnemon_engine_server:main
END
"$python" -m wheel pack "$folder" --dest-dir "$out"
