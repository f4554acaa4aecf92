# What plugins in JavaScript, TypeScript and Python are built with, for the scripts that source this behind lib.sh; does
# nothing by itself.
#
# need_LANGUAGE installs what is missing, pinned: the packages of npm that a package-lock.json names, into the folder that has
# it; the package of PyPI that its requirements.txt names, into a folder of ours. use_LANGUAGE sets the environment that
# build scripts take. test_sdk_LANGUAGE runs the tests of an SDK. languages-native.sh has those of Go and C.
# shellcheck shell=bash

# shellcheck source=scripts/languages-native.sh
source "$ROOT/scripts/languages-native.sh"

# What of the Go SDK is tested natively.
GO_NATIVE=(. ./cmd/... ./httpclient ./leaseholdtest ./internal/host)

# Every language of `leasehold new`.
LANGUAGES=(rust js ts python go c)

JS_SDK=$ROOT/guest-sdk/js
# What plugins are built with, and what makes the files of tests/foreign.
NPM_FOLDERS=(guest-sdk/js tests/foreign/js)
PYTHON_SDK=$ROOT/guest-sdk/python
PYTHON_HOME=$CACHE/languages/python-$(sha256sum "$PYTHON_SDK/requirements.txt" | cut -c 1-12)

is_language() {
    [[ " ${LANGUAGES[*]} " == *" $1 "* ]]
}

need_language() {
    case $1 in
        rust) need_rust && need_wasm_target && need_core_target ;; # of scripts/setup
        ts) need_js ;;
        *) "need_$1" ;;
    esac
}

# use_language LANGUAGE: to be called before whatever builds a plugin of that language.
use_language() {
    case $1 in
        rust) ;;
        js | ts) use_js ;;
        *) "use_$1" ;;
    esac
}

# build_all_languages: sets up what plugins in each language are built with, and builds the examples and the tests' plugins,
# once. Leaves the languages that can be had here in AVAILABLE.
build_all_languages() {
    local language
    [[ ! ${AVAILABLE:-} ]] || return 0
    AVAILABLE=()
    for language in "${LANGUAGES[@]}"; do
        if scripts/setup --lang "$language"; then
            AVAILABLE+=("$language")
        elif [[ ${LEASEHOLD_REQUIRE_LANGUAGES:-} == 1 ]]; then
            die "plugins in $language cannot be built here (above: why)"
        else
            say "SKIPPED: $language, whose plugins cannot be built here (above: why)"
        fi
    done
    scripts/build-plugins --lang "${AVAILABLE[@]}"
}

# in_toolchain LANGUAGE COMMAND…: what a project's own build command is run in, after use_language.
in_toolchain() {
    if [[ $1 == rust && $(wasm_way) == debian ]]; then
        CARGO_UNSTABLE_BUILD_STD=std,panic_abort debian_rust "${@:2}"
    else
        "${@:2}"
    fi
}

need_js() {
    local folder
    has_node || die "Node 20 or newer with npm is needed for plugins in JavaScript and TypeScript: install it from nodejs.org" \
        "or with your system's package manager"
    for folder in "${NPM_FOLDERS[@]}"; do
        has_npm_packages "$folder" || install_npm_packages "$folder"
    done
}

has_node() {
    command -v npm >/dev/null && version_at_least "$(node --version | tr -d v)" 20
}

has_npm_packages() {
    cmp -s "$ROOT/$1/package-lock.json" "$ROOT/$1/node_modules/.installed"
}

install_npm_packages() {
    if [[ ${CHECK:-} ]]; then
        say "would install the packages of $1/package-lock.json from npm into $1/node_modules"
        return
    fi
    say "installing the packages of $1/package-lock.json from npm into $1/node_modules"
    (cd "$ROOT/$1" && npm ci --no-audit --no-fund --loglevel error) || die "the packages cannot be had from npm (above: why)"
    # Written last: an installation that was cut short is begun anew.
    cp "$ROOT/$1/package-lock.json" "$ROOT/$1/node_modules/.installed"
}

use_js() {
    local folder
    for folder in "${NPM_FOLDERS[@]}"; do
        has_npm_packages "$folder" || die "packages of $folder are missing: run scripts/setup --lang js"
    done
}

need_python() {
    has_python || die "Python 3.10 or newer with venv is needed for plugins in Python: apt-get install python3-venv"
    [[ ! -x $PYTHON_HOME/bin/componentize-py ]] || return 0
    if [[ ${CHECK:-} ]]; then
        say "would install what guest-sdk/python/requirements.txt names from PyPI into $PYTHON_HOME"
        return
    fi
    say "installing what guest-sdk/python/requirements.txt names from PyPI into $PYTHON_HOME"
    rm -rf "$PYTHON_HOME"
    python3 -m venv "$PYTHON_HOME"
    "$PYTHON_HOME/bin/pip" install --quiet --disable-pip-version-check --requirement "$PYTHON_SDK/requirements.txt" ||
        die "the packages cannot be had from PyPI (above: why)"
}

has_python() {
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))'
}

use_python() {
    [[ -x $PYTHON_HOME/bin/componentize-py ]] ||
        die "what builds plugins in Python is missing: run scripts/setup --lang python"
    export LEASEHOLD_PYTHON=$PYTHON_HOME/bin/python
}

# test_sdk LANGUAGE: TypeScript's is JavaScript's, and Rust's is of the host's workspace.
test_sdk() {
    case $1 in
        js) (cd "$JS_SDK" && npm test --silent) ;;
        python) (cd "$PYTHON_SDK" && python3 -m unittest) ;;
        # Without internal/bindings and internal/guest, which are for WebAssembly alone; every plugin in Go has them.
        go) (cd "$ROOT/guest-sdk/go" && go vet "${GO_NATIVE[@]}" && go test "${GO_NATIVE[@]}") ;;
        c) make --no-print-directory --silent -C "$ROOT/guest-sdk/c" test ;;
    esac
}
