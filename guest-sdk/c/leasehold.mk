# Builds $(PLUGIN).wasm of $(SOURCES) – `make` – and runs $(TESTS) with the native compiler: `make test`.
#
# WASM_CC is a C compiler for wasm32-wasi with its C library: that of zig (PyPI's ziglang, in .venv or for the python3 in
# PATH), or clang with lld, wasi-libc and libclang-rt-dev-wasm32: WASM_CC="clang --target=wasm32-wasi". CC is the native one.
SDK := $(dir $(lastword $(MAKEFILE_LIST)))
WASM_CC ?= $(firstword $(wildcard .venv/bin/python3) python3) -m ziglang cc --target=wasm32-wasi
CFLAGS ?= -Wall -Wextra
BINDINGS := $(SDK)bindings/job.c $(SDK)bindings/job_component_type.o
HEADERS := $(SDK)leasehold.h $(SDK)bindings/job.h $(wildcard *.h)

# -UNDEBUG: where it optimises, zig leaves out what `assert` checks.
# The stack is memory of the plugin's, and zig's usual 16 MiB of it are much of what a plugin may have. What overflows it
# traps: it grows down to the beginning of memory.
$(PLUGIN).wasm: $(SOURCES) $(SDK)leasehold.c $(SDK)bytes.c $(BINDINGS) $(HEADERS)
	@$(WASM_CC) --version >/dev/null || { echo "$(firstword $(WASM_CC)) is or has no compiler for WebAssembly (above: why):" \
	    "python3 -m venv .venv && .venv/bin/pip install ziglang, or make WASM_CC=... (README.md)" >&2; exit 1; }
	$(WASM_CC) -std=c11 -Os -UNDEBUG $(CFLAGS) -mexec-model=reactor -Wl,-z,stack-size=262144 -I$(SDK) -o $@.tmp \
		$(SOURCES) $(SDK)leasehold.c $(SDK)bytes.c $(BINDINGS)
	mv $@.tmp $@

out/test: $(SOURCES) $(TESTS) $(SDK)leasehold.c $(SDK)bytes.c $(SDK)testing.c $(HEADERS) $(SDK)testing.h
	mkdir -p out
	$(CC) -std=c11 -g $(CFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=all -I$(SDK) -o $@ \
		$(SOURCES) $(TESTS) $(SDK)leasehold.c $(SDK)bytes.c $(SDK)testing.c

.PHONY: test clean
test: out/test
	./out/test

clean:
	rm -rf out $(PLUGIN).wasm
