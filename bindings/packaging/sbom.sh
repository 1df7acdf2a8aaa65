#!/bin/sh
# Lists all dependencies of the command and of the wheel, as CycloneDX: sbom.sh DIST VERSION. The tool writes into the folders of all
# packages; the machine's paths are taken out.
set -eu
cargo cyclonedx --quiet --format json --spec-version 1.5 --target all --override-filename mnemon-sbom
for package in crates/cli:mnemon bindings/python:mnemon-engine; do
    sed "s|path+file://$PWD|path+file:///mnemon|g" "${package%:*}/mnemon-sbom.json" >"$1/${package#*:}-$2.cdx.json"
done
find . -name mnemon-sbom.json -not -path './target/*' -exec rm {} +
