#!/usr/bin/env bash
# Brings the poolers of `make test-postgres` with the distribution's packages: PgBouncer 1.18 and Pgpool of Debian 12, and into the
# given folder PgBouncer 1.24, built from the source package of Debian 13. The tests say so where one of them is missing.
set -euo pipefail
folder=$1
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "poolers were not installed"; exit 0; }
have() { [ -x /usr/sbin/pgbouncer ] && [ -x /usr/sbin/pgpool ] && dpkg -s libevent-dev libssl-dev pkg-config gcc make; }
if ! have >/dev/null 2>&1; then
    { apt-get update -qq && apt-get install -qqy --no-install-recommends pgbouncer pgpool2 libevent-dev libssl-dev pkg-config gcc make; } \
        >/dev/null 2>&1 || echo "some poolers were not installed"
fi
[ ! -x "$folder/pgbouncer" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build() {
    mkdir -p "$work/lists/partial" "$work/source"
    chmod 755 "$work"
    echo "deb-src $(apt-get indextargets --format '$(SITE)' 'Identifier: Packages' 'Label: Debian' | head -1) trixie main" >"$work/sources.list"
    local apt=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
    apt-get "${apt[@]}" update -qq
    cd "$work/source"
    apt-get "${apt[@]}" source -qq --download-only pgbouncer
    tar -xf pgbouncer_*.orig.tar.gz --strip-components=1
    ./configure --without-cares --without-pam --without-systemd --without-ldap
    make -j2 pgbouncer
}
if (build) >"$work/log" 2>&1; then
    mkdir -p "$folder" && cp "$work/source/pgbouncer" "$folder/"
else
    tail -5 "$work/log"
    echo "PgBouncer 1.24 was not built"
fi
