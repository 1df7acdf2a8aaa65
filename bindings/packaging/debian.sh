#!/bin/sh
# Runs a command in a Debian whose Rust compiler has what `rustup` may lack here: the standard library for Linux on ARM, and its sources,
# from which it is compiled for musl. The Debian is made in the target folder; the checkout, the target folder and CARGO_HOME have the same
# paths in it. Needs root. Usage: debian.sh TARGET_FOLDER COMMAND [ARGUMENT...]
set -eu
target=$(realpath "$1")
shift
debian=$target/debian
[ "$(id -u)" = 0 ] || { echo "debian.sh: only root can make a folder with a system; or install the target: rustup target add" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -qqy debootstrap >/dev/null

if [ ! -e "$debian/ready" ]; then
    rm -rf "$debian"
    {
        debootstrap --variant=minbase --include=ca-certificates trixie "$debian"
        chroot "$debian" sh -eu -c '
            export DEBIAN_FRONTEND=noninteractive
            dpkg --add-architecture arm64
            apt-get -qq update
            apt-get -qqy install --no-install-recommends cargo-web rustc-web rust-web-src libstd-rust-web-dev:arm64
        '
    } >"$target/debian.log" 2>&1 || { tail "$target/debian.log"; exit 1; }
    touch "$debian/ready"
fi

# The mounts are gone with the namespace that they are made in. The certificates are those with which this machine reaches the registries.
export debian target checkout="$PWD" CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}"
exec unshare --mount sh -eu -c '
    for folder in "$checkout" "$target" "$CARGO_HOME" /etc/ssl/certs; do
        mkdir -p "$debian$folder"
        mount --bind "$folder" "$debian$folder"
    done
    mount -t proc proc "$debian/proc"
    exec chroot "$debian" env PATH=/usr/bin:/bin HOME=/tmp sh -c "cd \"\$checkout\"; exec \"\$@\"" sh "$@"
' sh "$@"
