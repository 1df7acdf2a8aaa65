#!/bin/sh
# Runs the tests of the index on ARM: compiled for aarch64, run by QEMU. `rustup` may have no standard library for another processor; the
# stable Debian has one, of the newest compiler, and a folder with such a Debian is made in the target folder. Needs root.
set -eu
target=$(realpath "${1:?the target folder}")
debian=$target/arm
missing() { echo "the tests on ARM are skipped: $1"; exit 0; }
[ "$(id -u)" = 0 ] || missing "only root can make a folder with a system"
command -v debootstrap >/dev/null || apt-get install -qqy debootstrap >/dev/null 2>&1 || missing "debootstrap was not installed"

if [ ! -e "$debian/ready" ]; then
    rm -rf "$debian"
    debootstrap --variant=minbase --include=ca-certificates trixie "$debian" >"$target/arm.log" || { tail "$target/arm.log"; exit 1; }
    chroot "$debian" sh -eu -c '
        export DEBIAN_FRONTEND=noninteractive
        dpkg --add-architecture arm64
        apt-get -qq update
        apt-get -qqy install --no-install-recommends cargo-web rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    ' >"$target/arm.log" 2>&1 || { tail "$target/arm.log"; exit 1; }
    mkdir -p "$debian/checkout" "$debian/cargo"
    touch "$debian/ready"
fi

# The mounts are gone with the namespace that they are made in.
export debian checkout="$PWD" cargo="${CARGO_HOME:-$HOME/.cargo}" PROPTEST_CASES="${PROPTEST_CASES:-8}"
exec unshare --mount sh -eu -c '
    mount --bind "$checkout" "$debian/checkout"
    mount --bind "$cargo" "$debian/cargo"
    exec chroot "$debian" env -i PATH=/usr/bin:/bin HOME=/tmp CARGO_HOME=/cargo CARGO_TARGET_DIR=/target PROPTEST_CASES="$PROPTEST_CASES" \
        CARGO_PROFILE_DEV_DEBUG=none CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        cargo test --quiet --manifest-path /checkout/Cargo.toml --target aarch64-unknown-linux-gnu -p mnemon-index --lib
'
