#!/bin/sh
# Starts what build.sh built where nothing is installed: the static command in an empty bullseye (glibc 2.31), the wheel in a trixie with
# Python alone (glibc 2.41), that of the server beside it, and those for ARM by QEMU. Each ingests the sample and finds an answer in it.
# What is not built is left out, and said so. Needs root. Usage: start.sh TARGET_FOLDER
set -eu
target=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo "start.sh: only root can make a folder with a system" >&2; exit 1; }
for program in debootstrap qemu-aarch64; do
    command -v $program >/dev/null || apt-get install -qqy debootstrap qemu-user >/dev/null
done

# debian NAME [OPTION...] SUITE: a Debian in the folder NAME of the target folder.
debian() {
    root=$target/$1
    shift
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root"
        # The first stage of another processor unpacks only the base.
        debootstrap --variant=minbase "$@" "$root" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
        if [ -e "$root/debootstrap" ]; then
            for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
        fi
        touch "$root/ready"
    fi
    cp datasets/sample/messages.jsonl "$root/tmp/"
    rm -f "$root/tmp/memory.redb"
}

# tour FOLDER COMMAND...: FOLDER is where the command finds the database and the sample.
tour() {
    at=$1
    shift
    "$@" ingest --db "$at/memory.redb" "$at/messages.jsonl" >/dev/null
    "$@" recall --db "$at/memory.redb" --namespace friends/ines-tom -k 1 "What musical instrument is she learning?" | tee "$root.out"
    grep -q cello "$root.out" || { echo "not found: $*" >&2; exit 1; }
}

# built NAME PATTERN: the newest file of `dist`.
built() {
    file=$(ls -t "$target"/dist/$2 2>/dev/null | head -1)
    if [ -n "$file" ]; then echo "== $1: $(basename "$file")"; else echo "== $1: NOT BUILT"; return 1; fi
}

if built "the static command in bullseye" "mnemon-*-x86_64-unknown-linux-musl.tar.gz"; then
    debian bullseye bullseye
    tar -xzf "$file" -C "$root/usr/local/bin" --strip-components 1
    tour /tmp chroot "$root" mnemon
    chroot "$root" mnemon runtime info 2>&1 | grep "linked statically"
fi
if built "the wheel in trixie, by Python 3.13" "mnemon_engine-*manylinux_2_28_x86_64.whl"; then
    debian trixie --include=python3-minimal,python3-venv,ca-certificates trixie
    rm -rf "$root/opt/venv"
    cp "$file" "$root/tmp/"
    unshare --mount sh -eu -c 'mount --bind /etc/ssl/certs "$1/etc/ssl/certs"; chroot "$1" sh -eu -c "
        python3 -m venv /opt/venv
        /opt/venv/bin/pip install --quiet --disable-pip-version-check /tmp/$2"' sh "$root" "$(basename "$file")"
    tour /tmp chroot "$root" /opt/venv/bin/mnemon
    # Every symbol of glibc is in an older one, too.
    debian bullseye bullseye
    cp "$target"/trixie/opt/venv/lib/python3*/site-packages/mnemon/_mnemon.abi3.so "$root/tmp/"
    chroot "$root" sh -c 'ldd -r /tmp/_mnemon.abi3.so 2>&1' >"$root.out"
    if grep -v "symbol: _*Py" "$root.out" | grep -E "not found|undefined"; then exit 1; fi
    echo "in bullseye, only Python's own symbols are missing: $(grep -c "symbol: _*Py" "$root.out")"
fi
if built "the wheel of the server in trixie" "mnemon_engine_server-*manylinux_2_28_x86_64.whl" && [ -e "$target/trixie/opt/venv" ]; then
    root=$target/trixie
    cp "$file" "$root/tmp/"
    chroot "$root" /opt/venv/bin/pip install --quiet --disable-pip-version-check --no-index "/tmp/$(basename "$file")"
    rm -f "$root/tmp/memory.redb"
    tour /tmp chroot "$root" /opt/venv/bin/mnemon
    echo '{"jsonrpc": "2.0", "id": 1, "method": "ping"}' |
        chroot "$root" /opt/venv/bin/mnemon mcp --idle 1 --db /tmp/memory.redb | grep '"result"'
fi
if built "the static command on ARM" "mnemon-*-aarch64-unknown-linux-musl.tar.gz"; then
    root=$target/arm-command
    mkdir -p "$root"
    tar -xzf "$file" -C "$root" --strip-components 1
    cp datasets/sample/messages.jsonl "$root/"
    rm -f "$root/memory.redb"
    tour "$root" qemu-aarch64 "$root/mnemon"
fi
if built "the wheel on ARM, by Python 3.13" "mnemon_engine-*manylinux_2_28_aarch64.whl"; then
    debian arm-python --foreign --arch=arm64 --include=python3 trixie
    rm -rf "$root/opt/wheel"
    python3 -m zipfile -e "$file" "$root/opt/wheel"
    tour "$root/tmp" env PYTHONPATH="$root/opt/wheel" qemu-aarch64 -L "$root" "$root/usr/bin/python3.13" -m mnemon
fi
