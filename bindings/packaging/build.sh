#!/bin/sh
# Builds what is published for one platform: for musl the command, linked statically; for Linux's glibc the wheel, which
# runs with 2.28 and newer, and the wheel of the command; for macOS and Windows all, with the tools of that system. Usage: build.sh TARGET_FOLDER TRIPLE. Results are in the target folder's `dist`, the tools in its `tools`.
#
# If `rustup` has no standard library for the platform (`rustup target add` installs it), all is done again in a Debian that has one.
set -eu
target=$(realpath "$1") triple=$2
dist=$target/dist tools=$target/tools library=$(rustc --print sysroot)/lib/rustlib
export CARGO_TARGET_DIR="$target/dist-build" CARGO_PROFILE_RELEASE_STRIP=true
zig=$(echo "$tools"/lib/python3*/site-packages/ziglang)
export PATH="$tools/bin:$zig:$PATH" CARGO_ZIGBUILD_ZIG_PATH="$zig/zig"
python=$(command -v python3 || command -v python)

build_std='' no_objects=''
if [ ! -d "$library/$triple/lib" ]; then
    [ -d "$library/src/rust/library" ] || exec bindings/packaging/debian.sh "$target" bindings/packaging/build.sh "$target" "$triple"
    # -Zbuild-std is a nightly flag, which RUSTC_BOOTSTRAP allows on stable. The objects around `main` are Zig's.
    export RUSTC_BOOTSTRAP=1
    build_std=-Zbuild-std=std,panic_unwind no_objects=-Clink-self-contained=no
fi
[ "$library" = /usr/lib/rustlib ] && CARGO_TARGET_DIR=$target/dist-build/debian

wheel() {
    maturin build --quiet --profile wheel --locked --compression-level 9 --target "$triple" "$@" \
        --manifest-path bindings/python/Cargo.toml --out "$dist"
}

# Packs a built command as a wheel, for the platforms of the other one.
server_wheel() {
    other=$(ls -t "$dist"/mnemon_engine-*.whl | head -1)
    bindings/packaging/server_wheel.sh "$python" "$1" "$(basename "${other##*-}" .whl)" "$dist"
}

# Packs a built command.
command_of() {
    version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    built=$CARGO_TARGET_DIR/$triple/release/mnemon
    [ -e "$built" ] || built=$built.exe
    folder=$target/dist-build/mnemon-$version-$triple
    mkdir -p "$folder" && cp "$built" LICENSE-APACHE LICENSE-MIT "$folder/"
    tar -C "$folder/.." -czf "$dist/mnemon-$version-$triple.tar.gz" "$(basename "$folder")"
}

mkdir -p "$dist"
case $triple in
*-linux-gnu)
    wheel --zig --compatibility manylinux_2_28
    cargo-zigbuild build --quiet --release --locked -p mnemon-cli --bin mnemon --target "$triple.2.28"
    server_wheel "$CARGO_TARGET_DIR/$triple/release/mnemon"
    ;;
*-linux-musl)
    cargo-zigbuild rustc --quiet --release --locked -p mnemon-cli --bin mnemon --target "$triple" $build_std -- $no_objects
    command_of
    ;;
*)
    wheel
    cargo build --quiet --release --locked -p mnemon-cli --target "$triple"
    command_of
    server_wheel "$built"
    ;;
esac
