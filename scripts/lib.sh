# Shared by the scripts beside it, which source it; does nothing by itself.
#
# Sets ROOT (the repository), CACHE (what we downloaded and unpacked), TARGET (where cargo builds), and offers the
# functions below. What a script tells a person goes to standard error.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/leasehold
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
[[ $TARGET == /* ]] || TARGET=$PWD/$TARGET
export CARGO_TARGET_DIR=$TARGET

# The least Rust that builds this: `rust-version` in Cargo.toml.
RUST_VERSION=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
# The C library for WebAssembly that stands in where rustup's target cannot be had.
WASI_LIBC=$CACHE/wasi-libc/usr/lib/wasm32-wasip2

say() {
    echo "$(basename "$0"): $*" >&2
}

die() {
    say "$@"
    exit 1
}

# usage_error MESSAGE: wrong arguments; the exit code is that of the command line.
usage_error() {
    say "$1 (see $0 --help)"
    exit 2
}

# show_help: the header of the script that called, without its comment signs.
show_help() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
}

# version_at_least HAVE WANT
version_at_least() {
    [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

# start_servers [ARGUMENT…]: starts a private PostgreSQL, Redis and Valkey, and puts their addresses into the environment
# variables LEASEHOLD_TEST_POSTGRES, _REDIS and _VALKEY, unless these are set already. The binary of tests/servers must be
# built; it gets the arguments.
#
# They run until their input ends, which this process holds: whatever ends it, ends them.
start_servers() {
    local line complete=
    coproc SERVERS { exec "$TARGET/debug/leasehold-test-servers" serve "$@"; }
    # Environment variables, one a line, then an empty line.
    while IFS= read -r line <&"${SERVERS[0]}"; do
        [[ $line ]] || { complete=1 && break; }
        export "${line?}"
    done
    [[ $complete ]] || die "the servers did not start (above: why)"
}

stop_servers() {
    local pid=$SERVERS_PID input=${SERVERS[1]}
    exec {input}>&-
    wait "$pid"
}

# packages FOLDER: the names of the folders in it that are Cargo packages.
packages() {
    local manifest
    for manifest in "$1"/*/Cargo.toml; do
        [[ ! -f $manifest ]] || basename "$(dirname "$manifest")"
    done
}

# wasm_way: how plugins are built here.
#
# Prints `rustup` (the toolchain has the target), `debian` (the stand-in of setup is complete) or nothing (neither: run
# setup). LEASEHOLD_WASM_TARGET=rustup|debian asks for one of them, so that both can be tried on one machine.
wasm_way() {
    local asked=${LEASEHOLD_WASM_TARGET:-}
    case $asked in
        '' | rustup | debian) ;;
        *) die "LEASEHOLD_WASM_TARGET=$asked: must be rustup or debian" ;;
    esac
    if [[ $asked != debian ]] && has_rustup_target; then
        echo rustup
    elif [[ $asked != rustup ]] && has_debian_stand_in; then
        echo debian
    fi
}

# core_way: the same for wasm32-unknown-unknown, which the Rust SDK can be built for as well. Where nothing can, it is skipped.
core_way() {
    local asked=${LEASEHOLD_WASM_TARGET:-}
    if [[ $asked != debian ]] && has_rustup_target wasm32-unknown-unknown; then
        echo rustup
    elif [[ $asked != rustup ]] && has_debian_rust; then
        echo debian
    fi
}

# has_rustup_target [TARGET]
has_rustup_target() {
    [[ -d $(rustc --print sysroot)/lib/rustlib/${1:-wasm32-wasip2}/lib ]]
}

has_debian_stand_in() {
    has_debian_rust && [[ -f $WASI_LIBC/crt1-reactor.o ]]
}

has_debian_rust() {
    [[ -x /usr/bin/cargo && -d /usr/lib/rustlib/src/rust/library ]] &&
        version_at_least "$(/usr/bin/rustc --version | cut -d ' ' -f 2)" "$RUST_VERSION"
}

# wasm_cargo SUBCOMMAND ARGUMENTS…: cargo for the target wasm32-wasip2, whichever way is there.
wasm_cargo() {
    local way
    way=$(wasm_way)
    case $way in
        rustup) cargo "$1" --target wasm32-wasip2 --target-dir "$TARGET/guests/rustup" "${@:2}" ;;
        debian) debian_cargo wasm32-wasip2 "$@" ;;
        *) die "nothing here builds for wasm32-wasip2; run scripts/setup" ;;
    esac
}

# core_cargo SUBCOMMAND ARGUMENTS…: cargo for wasm32-unknown-unknown, the way that core_way tells.
core_cargo() {
    case $(core_way) in
        rustup) cargo "$1" --target wasm32-unknown-unknown --target-dir "$TARGET/guests/rustup" "${@:2}" ;;
        debian) debian_cargo wasm32-unknown-unknown "$@" ;;
        *) die "nothing here builds for wasm32-unknown-unknown" ;;
    esac
}

# debian_cargo TARGET SUBCOMMAND ARGUMENTS…: Debian's compiler has no standard library for WebAssembly, so it is built with
# the plugin.
debian_cargo() {
    debian_rust /usr/bin/cargo "$2" -Zbuild-std=std,panic_abort \
        --target "$1" --target-dir "$TARGET/guests/debian" "${@:3}"
}

# debian_rust COMMAND…: in the environment of Debian's compiler. The linker that makes a component at once comes with
# rustup's toolchain.
debian_rust() {
    local host tools
    host=$(rustc -vV | sed -n 's/^host: //p')
    tools=$(rustc --print sysroot)/lib/rustlib/$host/bin
    [[ -x $tools/wasm-component-ld ]] ||
        die "$tools/wasm-component-ld is missing, which links plugins; is rustc on the PATH that of rustup?"
    PATH=/usr/bin:/bin:$tools/gcc-ld \
        RUSTC=/usr/bin/rustc \
        RUSTC_BOOTSTRAP=1 \
        WASM_COMPONENT_LD=$tools/wasm-component-ld \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$tools/rust-lld \
        CARGO_TARGET_WASM32_WASIP2_LINKER=$ROOT/scripts/wasm-linker \
        CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS="-C link-self-contained=no -L native=$WASI_LIBC \
            -C link-arg=$WASI_LIBC/crt1-reactor.o -C link-arg=-lc" \
        "$@"
}

# wasm_output, core_output: where wasm_cargo and core_cargo put plugins of the release profile.
wasm_output() {
    echo "$TARGET/guests/$(wasm_way)/wasm32-wasip2/release"
}

core_output() {
    echo "$TARGET/guests/$(core_way)/wasm32-unknown-unknown/release"
}
