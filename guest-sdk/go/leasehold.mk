# Builds $(PLUGIN).wasm of the Go program in this folder – `make` – and runs its tests natively: `make test`.
GO ?= go
CARGO ?= cargo
SDK := $(dir $(lastword $(MAKEFILE_LIST)))
RUNTIME := $(SDK)internal/wit
CRATES := $(SDK)wit-bindgen/crates
GO_PART := $(CRATES)/wit-bindgen-go/src/pkg

# -checklinkname=0: the bindings' runtime allocates by the Go runtime's own means before that is started.
$(PLUGIN).wasm: $(RUNTIME) FORCE
	GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -ldflags='-checklinkname=0 -w' -o out/core.wasm .
	$(GO) run leasehold/cmd/embed out/core.wasm $@

.PHONY: test runtime clean FORCE
test:
	$(GO) vet . && $(GO) test .

# The runtime of the bindings is others' work, so cargo brings it, once, from the crate of the generator that made them. No
# Rust is compiled. What only asynchronous contracts need stays behind.
runtime: $(RUNTIME)
$(RUNTIME): $(SDK)wit-bindgen/Cargo.lock
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing, which brings the runtime of the bindings into $(RUNTIME):" \
	    "install Rust, or copy that folder from a project that has it" >&2; exit 1; }
	rm -rf $(CRATES) $(RUNTIME)
	$(CARGO) vendor --quiet --locked --manifest-path $(SDK)wit-bindgen/Cargo.toml $(CRATES) >/dev/null
	mkdir -p $(CRATES)/wit/types
	cp -R $(GO_PART)/LICENSE $(GO_PART)/wit/runtime $(CRATES)/wit
	cp $(addprefix $(GO_PART)/wit/types/,option.go result.go tuple.go unit.go) $(CRATES)/wit/types
	mv $(CRATES)/wit $(RUNTIME)
	rm -rf $(CRATES)

clean:
	rm -rf out $(PLUGIN).wasm
