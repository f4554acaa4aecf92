# Builds $(PLUGIN).wasm of the Go program in this folder – `make` – and runs its tests natively: `make test`.
GO ?= go

# -checklinkname=0: the bindings' runtime allocates by the Go runtime's own means before that is started.
$(PLUGIN).wasm: FORCE
	GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -ldflags='-checklinkname=0 -w' -o out/core.wasm .
	$(GO) run leasehold/cmd/embed out/core.wasm $@

.PHONY: test clean FORCE
test:
	$(GO) vet . && $(GO) test .

clean:
	rm -rf out $(PLUGIN).wasm
