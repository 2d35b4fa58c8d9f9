# What people do with this tree. `make` alone says what there is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?=
LDFLAGS := $(if $(VERSION),-X github.com/scriptorium-dev/scriptorium/internal/version.release=$(VERSION))
COMMANDS := scriptorium registryd agentd scriptctl
# Flags for `go test`, such as TESTFLAGS='-run TestX -v'.
TESTFLAGS ?=
# Flags for `make run` and `make demo`, such as ARGS='--agents 5'.
ARGS ?=

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: bin/scriptorium bin/scriptctl ## Start everything in one process and watch examples/scripts
	@exec bin/scriptorium dev $(ARGS)

.PHONY: demo
demo: bin/scriptorium ## Show the whole path, unattended, in under 20 seconds
	@exec bin/scriptorium demo $(ARGS)

.PHONY: build
build: $(COMMANDS:%=bin/%) ## Build all commands into bin/

# What the race detector leaves out, for its own time and memory: all variants of the
# hostile scripts, and the bounds of a process's memory.
PLAIN := ./engine/lua ./agent/worker/...

.PHONY: test
test: ## Run every test, with the race detector, and without it where it would leave something out
	go test -race -timeout 15m $(TESTFLAGS) ./...
	go test -timeout 15m $(TESTFLAGS) $(PLAIN)

.PHONY: verify
verify: verify-format verify-modules verify-generated lint verify-docs ## Check formatting, modules, generated files, lint and docs

.PHONY: lint
lint: bin/golangci-lint bin/buf ## Run go vet, golangci-lint and buf lint
	go vet ./...
	bin/golangci-lint run ./...
	bin/buf lint

.PHONY: generate
generate: bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc ## Generate Go code from proto/, and format the tree
	bin/buf generate
	$(MAKE) --no-print-directory format

.PHONY: format
format: bin/golangci-lint ## Format the tree
	bin/golangci-lint fmt ./...

.PHONY: bench
bench: ## Run the benchmarks of the engine, and calls over the sockets beside Redis
	go test -run '^$$' -bench . -benchmem ./engine/...
	go run ./loadtest calls

.PHONY: clean
clean: ## Remove what was built, and the state of `make run`
	rm -rf bin .scriptorium

.PHONY: verify-format
verify-format: bin/golangci-lint
	@bin/golangci-lint fmt --diff ./... || { echo 'verify: not formatted: run `make format`' >&2; exit 1; }

.PHONY: verify-modules
verify-modules:
	@go mod tidy -diff || { echo 'verify: go.mod is not tidy: run `go mod tidy`' >&2; exit 1; }
	@go -C tools mod tidy -diff || { echo 'verify: tools/go.mod is not tidy: run `go -C tools mod tidy`' >&2; exit 1; }

# Generates into a folder of its own, so that verifying changes nothing.
.PHONY: verify-generated
verify-generated: bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc
	@out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; \
	bin/buf generate --output "$$out"; \
	for f in $$(cd "$$out" && find . -name '*.go') $$(find proto -name '*.pb.go'); do \
		cmp -s "$$out/$$f" "$$f" || { echo "verify: $$f is not what proto/ says: run \`make generate\`" >&2; exit 1; }; \
	done

.PHONY: verify-docs
verify-docs:
	go test ./internal/rules ./internal/docs

# Go decides what has to be built again, so the commands are always made.
.PHONY: $(COMMANDS:%=bin/%)
$(COMMANDS:%=bin/%): bin/%:
	@go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

# Tools come from a module of their own: their dependencies are not ours.
TOOL_buf := github.com/bufbuild/buf/cmd/buf
TOOL_golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
TOOL_protoc-gen-go := google.golang.org/protobuf/cmd/protoc-gen-go
TOOL_protoc-gen-go-grpc := google.golang.org/grpc/cmd/protoc-gen-go-grpc

bin/buf bin/golangci-lint bin/protoc-gen-go bin/protoc-gen-go-grpc: bin/%: tools/go.mod tools/go.sum
	go -C tools build -o ../$@ $(TOOL_$*)
