# What people do with this tree. `make` alone says what there is.

SHELL := /bin/bash
comma := ,
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?=
LDFLAGS := $(if $(VERSION),-X github.com/scriptorium-dev/scriptorium/internal/version.release=$(VERSION))
COMMANDS := scriptorium registryd agentd scriptctl scriptorium-krm operator
# The plugin of kubectl is scriptctl by another name.
PLUGIN := kubectl-scriptorium
# What `make dist` and `make images` are for: commas between several.
PLATFORMS ?= linux/amd64,linux/arm64
# Of the images: NAMES/registryd:TAG and so on, and what docker buildx does with them
# (type=registry pushes them; type=docker, for one platform, hands them to docker).
NAMES ?= scriptorium
TAG ?= $(or $(VERSION),dev)
OUTPUT ?= type=oci,dest=dist/$@.tar
# Flags for `go test`, such as TESTFLAGS='-run TestX -v'.
TESTFLAGS ?=
# Flags for `make run`, `make demo` and `make e2e-latency`, such as ARGS='--agents 5'.
ARGS ?=

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The folder that `make run` watches. What it starts with is a copy, so that whoever edits
# scripts changes no tracked file.
SCRIPTS ?= my-scripts

.PHONY: run
run: first-build bin/scriptorium bin/scriptctl ## Start everything in one process and watch SCRIPTS: my-scripts, a copy of examples/scripts
	@[ -e '$(SCRIPTS)' ] || cp -r examples/scripts '$(SCRIPTS)'
	@exec bin/scriptorium dev --scripts '$(SCRIPTS)' $(ARGS)

# Nothing is to be seen while Go builds.
.PHONY: first-build
first-build:
	@[ -x bin/scriptorium ] || echo 'building the commands: the first build takes about a minute'

.PHONY: demo
demo: first-build bin/scriptorium demo-modules ## Show the whole path, unattended, in under 20 seconds
	@exec bin/scriptorium demo $(ARGS)

# The status 3 says that the machine has no compiler of Rust for WebAssembly. Then the demo shows a module in Go.
.PHONY: demo-modules
demo-modules:
	@timeout 300 sdk/build.sh rust || { [ $$? -eq 3 ] && timeout 300 sdk/build.sh go; }

.PHONY: build
build: $(COMMANDS:%=bin/%) bin/$(PLUGIN) ## Build all commands into bin/

# The page of the console that `make console` builds last. Programs that people get have it; tests do without.
CONSOLE := console/dist/app/index.html.gz

DISTS := $(addprefix dist/,$(subst $(comma), ,$(PLATFORMS)))

.PHONY: dist
dist: $(DISTS) ## Build all commands for PLATFORMS into dist/, static

# Each is checked to start where there is nothing but itself, and those that serve the console to have its files.
.PHONY: $(DISTS)
$(DISTS): dist/%: $(CONSOLE)
	CGO_ENABLED=0 GOOS=$(*D) GOARCH=$(*F) go build -trimpath -ldflags '-s -w $(LDFLAGS)' -o $@/ $(COMMANDS:%=./cmd/%)
	go run ./deploy/docker/static $* $(COMMANDS:%=$@/%)
	go run ./deploy/docker/static -has $(CONSOLE) $* $@/scriptorium $@/registryd
	ln -sf scriptctl $@/$(PLUGIN)

IMAGES := registryd agentd operator scriptorium-krm

.PHONY: images
images: $(IMAGES:%=image-%) ## Build the container images for PLATFORMS (docker buildx): NAMES, TAG, OUTPUT

.PHONY: $(IMAGES:%=image-%)
$(IMAGES:%=image-%): image-%: $(CONSOLE)
	@mkdir -p dist
	docker buildx build --file deploy/docker/Dockerfile --target $* --platform '$(PLATFORMS)' \
		--build-arg VERSION='$(or $(VERSION),devel)' --build-arg REVISION="$$(git rev-parse HEAD)" \
		--tag '$(NAMES)/$*:$(TAG)' --output '$(OUTPUT)' .

# The race detector runs every test but those of PLAIN. Those drive other programs, such as
# a scriptctl for each command, etcd, gateways, a browser, or a fleet of processes, or read files, and have few
# goroutines of their own to race, or are of packages without goroutines. Other tests race the
# code of etcdstore.
PLAIN := ./internal/scriptctl ./internal/console/browser ./sdk ./engine/wasm/instrument ./loadtest/faults ./loadtest/faults/history ./loadtest/faults/plan ./operator/api/... ./operator/testenv ./proto/wire ./proto/bearer ./proto/publisher ./internal/flagenv ./registry/rollout/compare ./registry/etcdstore ./deploy/... ./internal/rules ./internal/docs ./internal/docs/page ./internal/docs/fleet ./internal/docs/gateways
# It attacks real sockets and watches the memory of real processes, so it has the machine for itself.
ALONE := ./internal/hostile
# TestThousand compares with a time that the operator promises on two processors, so it has the machine
# for itself, too. So have processes of tenants, which a lower priority starves beside other tests.
TIMED := ./operator/suite ./agent/worker/...
# `make verify` runs these.
VERIFIED := ./internal/docs/prose
# Tests that skip, or do less, under the race detector (needs.NoRace) run without it: hostile
# scripts and policies in all variants, the comparison with reference Lua, bounds of work, of compiling, of watches
# and of memory, simulated admission, mutants of the simulation, processes that end, fleets of them, a
# thousand LuaScripts. No other test runs twice.
HEAVY := ./internal/scriptorium ./engine/rego ./engine/lua ./engine/lua/hostlib ./agent/admission ./registry/rpc ./internal/sim ./registry/rollout
HEAVY_TESTS := TestSameVersion|TestHeadersOfStrangers|TestBodiesOfStrangers|TestFindsBugs|TestShowsBugs|TestCorpus|TestLooks|TestLinear|TestReBombs|TestHeadersCost|TestArgumentsAreLinear|TestDiff|TestGuards|TestHostileSources|TestCompileIsBounded|FuzzCompile|TestSourceBombs|TestAllocationIsCounted|TestReAgainstGo|TestSimulation|TestMemoryIsCapped|TestDeaths|TestThousand|TestWatchesOfManyScripts|TestACanary|TestAFreeze$$|TestMutants|TestAfterOtherScripts|TestWritesWhileFrozen|TestFaultsOfAFreeze|TestARegistryIsKilled|TestAnAgentIsKilled|TestLostAgents|TestChangesDuring|TestClocksOfProcesses|TestRepairsWhileFrozen|TestARestoreInAFreeze|TestAPassThatIsOld|TestASystemThatIsSlow|TestPlansThatAreNotMet|TestAGateFailsClosed|TestAGateAndTwoLeaders|TestWhenGatesAreNotAsked|TestAnswersOfGatesThatComeLate|TestNoAnswerWithoutARecord

# Tests wait for other processes and for the disk, so two packages more than there are processors
# run at a time.
PARALLEL := -p $(shell expr $$(nproc) + 2)
# The longest packages begin first, so that none of them runs alone at the end.
LONG := ./operator/suite ./internal/local

# The race detector waits for a second before each process ends.
GORACE ?= atexit_sleep_ms=100

.PHONY: test
test: testenv ## Run every test, with the race detector or, where that is useless, without it
	GORACE='$(GORACE)' go test $(PARALLEL) -race -vet=off -timeout 15m $(TESTFLAGS) $(LONG) $$(go list ./... | grep -vxF "$$(go list $(PLAIN) $(ALONE) $(VERIFIED))")
	CGO_ENABLED=0 go test $(PARALLEL) -vet=off -timeout 25m $(TESTFLAGS) $(PLAIN)
	CGO_ENABLED=0 go test -vet=off -timeout 15m $(TESTFLAGS) $(ALONE)
	CGO_ENABLED=0 go test -p 1 -vet=off -timeout 15m $(TESTFLAGS) -run '$(HEAVY_TESTS)' $(TIMED)
	CGO_ENABLED=0 go test -vet=off -timeout 15m $(TESTFLAGS) -run '$(HEAVY_TESTS)' $(HEAVY)

	$(MAKE) --no-print-directory test-gateways test-sdk

# Modules of other programs have modules of Go of their own, since they need all of the program.
GATEWAYS := gateways/caddy gateways/manifests

.PHONY: test-gateways
test-gateways: ## Run the tests of the modules for gateways, in the gateways (test runs them, too)
	for module in $(GATEWAYS); do (cd $$module && CGO_ENABLED=0 go test -vet=off -timeout 15m $(TESTFLAGS) ./...) || exit 1; done

# It builds egctl, 2,600 packages, which takes too long for each CI run: other tests read what it records.
.PHONY: test-envoy-gateway
test-envoy-gateway: ## Translate the manifests of docs/gateways/envoy-gateway.md by Envoy Gateway's egctl again, and test that
	out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	CGO_ENABLED=0 go -C gateways/manifests build -o "$$out/egctl" github.com/envoyproxy/gateway/cmd/egctl && \
	go test -count=1 ./agent/gateway/envoy -run EnvoyGateway -envoygateway.egctl "$$out/egctl"

$(CONSOLE): $(shell find console -path console/dist -prune -o -path console/node_modules -prune -o -path console/src/gen -prune -o -type f -print 2>/dev/null) \
		$(wildcard proto/registry/v1/*.proto proto/script/v1/*.proto proto/event/v1/*.proto proto/console/v1/*.proto)
	$(MAKE) --no-print-directory console

.PHONY: console
console: console/node_modules bin/buf ## Build the files of the console into console/dist/app (needs Node.js and npm)
	rm -rf console/dist/app console/src/gen
	bin/buf generate --template console/buf.gen.yaml --path proto/registry --path proto/script --path proto/event --path proto/console
	cd console && npm run --silent build

.PHONY: console-pictures
console-pictures: console ## Take the pictures of docs/console in a browser, light and dark
	go test ./internal/console/browser -run 'Accessible|Story|TwoTabs' -count=1 -browser.pictures $(CURDIR)/docs/console

console/node_modules: console/package-lock.json
	cd console && npm ci --no-audit --no-fund
	touch $@

PKG ?= ./...
.PHONY: test-short
test-short: ## Run the tests of PKG without those that take long, and without the race detector
	go test -short $(TESTFLAGS) $(PKG)

# Tests with a Kubernetes API skip without these programs.
.PHONY: testenv
testenv:
	@go run ./internal/toolcache/build kube-apiserver etcd etcdctl etcdutl nats-server prometheus promtool helm distribution oidcprovider >/dev/null

# How long, or how often, `make soak` does what `make test` does shortly, and to what. BEFORE is the
# edition that people upgrade from.
SOAK ?= 10m
SCHEDULES ?= 200
CASES ?= 50000
REPEAT ?= 20
BEFORE ?= 3997558

.PHONY: soak
soak: soak-sim soak-rollout soak-faults soak-lua soak-sockets soak-fuzz soak-editions soak-console soak-repeat ## Run the random suites at length: hours (SOAK, SCHEDULES, CASES, REPEAT, PKG)
	$(if $(KERNEL),$(MAKE) --no-print-directory test-kernel)

.PHONY: soak-sim
soak-sim:
	go test ./internal/sim -run TestSchedules -timeout 0 -sim.time $(SOAK) -v

.PHONY: soak-rollout
soak-rollout:
	go test ./registry/rollout -run 'TestCrashingCandidates|TestMutants' -timeout 0 -rollout.schedules $(CASES) -rollout.mutants 0

.PHONY: soak-faults
soak-faults:
	go run ./loadtest/faults --schedules $(SCHEDULES)

.PHONY: soak-editions
soak-editions: testenv
	go test ./loadtest/editions -timeout 0 -editions.before $(BEFORE) -v

.PHONY: soak-lua
soak-lua:
	go test ./engine/lua -run 'Diff|Corpus' -timeout 0 -corpus.third -1 -lua.seed 0 -lua.cases $(CASES) -v

.PHONY: soak-sockets
soak-sockets:
	go test ./internal/hostile -timeout 0 -hostile.rounds $(REPEAT)

.PHONY: soak-console
soak-console: console
	go test ./internal/console/browser -run Many -timeout 0 -browser.many 10000 -v

# One fuzz test at a time, as `go test` wants it.
.PHONY: soak-fuzz
soak-fuzz:
	@grep -rno --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sed -E 's|^(.*)/[^/]*:[0-9]+:func (.*)|\1 \2|' | sort | while read -r dir name; do \
		go test $$dir -run '^$$' -fuzz "^$$name$$" -fuzztime $(SOAK); \
	done

.PHONY: soak-repeat
soak-repeat: testenv
	go test -race -vet=off -timeout 0 -count $(REPEAT) -failfast $(TESTFLAGS) $(PKG)

# A kernel for amd64, such as that of Debian's linux-image-cloud-amd64: see .ci/run. Where
# it has to be emulated it is ten times slower: what has nothing of control groups in it is
# left to `make test`.
KERNEL ?=
# --once does nothing if the same tests passed under the same kernel before.
VMFLAGS ?=

.PHONY: test-kernel
test-kernel: ## Run the tests of what a kernel keeps, under KERNEL (vmlinuz) in QEMU
	go run ./agent/worker/vm $(VMFLAGS) --kernel '$(KERNEL)' ./agent/worker/confine ./agent/worker -- \
		-run 'Kernel|EarlierAgent|Cgroups|MemoryIsCapped|DelegatedGroup|ProcessesComeBehind|ATenantInAProcess|Killed' $(TESTFLAGS)

.PHONY: e2e
e2e: ## Install everything on the cluster of KUBECONFIG, try it, and remove it
	go test -tags e2e -count=1 -timeout 30m -v $(TESTFLAGS) ./e2e

.PHONY: e2e-latency
e2e-latency: ## Measure there how fast a change is everywhere, beside ConfigMaps
	go run ./e2e/latency $(ARGS)

.PHONY: verify
verify: verify-format verify-modules verify-generated verify-prose lint ## Check formatting, modules, generated files, prose and lint

.PHONY: lint
lint: bin/golangci-lint bin/buf ## Run golangci-lint, go vet among it, and buf lint
	CGO_ENABLED=0 bin/golangci-lint run --build-tags e2e,cgroupv2 ./...
	for module in $(GATEWAYS) sdk/go; do (cd $$module && CGO_ENABLED=0 $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done
	bin/buf lint

.PHONY: generate
generate: bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc bin/controller-gen ## Generate code, schemas and pages, and format the tree
	bin/buf generate
	$(MAKE) --no-print-directory generate-kubernetes
	go run ./deploy/observability/generate
	go run ./internal/schema/generate
	go run ./docs/api/generate
	cp deploy/crd/scriptorium.dev_* deploy/rbac/operator.yaml deploy/rbac/bootstrap.yaml deploy/webhook/manifests.yaml deploy/nats/nats-server.conf deploy/helm/scriptorium/files/
	$(MAKE) --no-print-directory format

# What Go types and markers say of Kubernetes. The operator and the bootstrap have a
# role each.
INTO := .
.PHONY: generate-kubernetes
generate-kubernetes: bin/controller-gen
	bin/controller-gen object paths=./operator/api/... output:object:dir=$(INTO)/operator/api/v1alpha1
	bin/controller-gen crd:allowDangerousTypes=true paths=./operator/api/... output:crd:dir=$(INTO)/deploy/crd
	bin/controller-gen rbac:roleName=scriptorium-operator,fileName=operator.yaml output:rbac:dir=$(INTO)/deploy/rbac \
		$(patsubst %,paths=./%/...,$(filter-out operator/bootstrap operator/testenv,$(wildcard operator/*)) internal/operatord)
	bin/controller-gen rbac:roleName=scriptorium-bootstrap,fileName=bootstrap.yaml output:rbac:dir=$(INTO)/deploy/rbac \
		paths=./operator/bootstrap
	bin/controller-gen webhook output:webhook:dir=$(INTO)/deploy/webhook paths=./operator/webhook

.PHONY: format
format: bin/golangci-lint ## Format the tree
	bin/golangci-lint fmt ./...

.PHONY: bench
bench: ## Run the benchmarks of the engine, and calls over the sockets beside Redis
	go test -run '^$$' -bench . -benchmem ./engine/...
	go run ./loadtest calls

.PHONY: sdk
sdk: ## Build the examples of the SDKs for WebAssembly into sdk/out/ (it says which Debian packages are missing)
	@sdk/build.sh

# The SDKs run outside of a module, too, so that people can test their scripts.
.PHONY: test-sdk
test-sdk: ## Run the tests of the SDKs in their own languages (test runs them, too)
	go -C sdk/go vet ./... && GOOS=wasip1 GOARCH=wasm go -C sdk/go vet ./...
	go -C sdk/go test $(TESTFLAGS) ./...
	sdk/build.sh test-rust

.PHONY: clean
clean: ## Remove what was built, and the state of `make run`
	rm -rf bin dist .scriptorium sdk/out sdk/assemblyscript/node_modules

.PHONY: verify-format
verify-format: bin/golangci-lint
	@bin/golangci-lint fmt --diff ./... || { echo 'verify: not formatted: run `make format`' >&2; exit 1; }

.PHONY: verify-modules
verify-modules:
	@go mod tidy -diff || { echo 'verify: go.mod is not tidy: run `go mod tidy`' >&2; exit 1; }
	@for module in tools tools/distribution tools/oidcprovider tools/prometheus operator/testenv/kube $(GATEWAYS) sdk/go; do \
		go -C $$module mod tidy -diff || { echo "verify: $$module/go.mod is not tidy: run \`go -C $$module mod tidy\`" >&2; exit 1; }; \
	done

# Generates into a folder of its own, so that verifying changes nothing.
.PHONY: verify-generated
verify-generated: bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc bin/controller-gen
	@out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; \
	bin/buf generate --output "$$out"; \
	$(MAKE) --no-print-directory --silent generate-kubernetes INTO="$$out"; \
	for f in $$(cd "$$out" && find . -type f) $$(find proto -name '*.pb.go') $$(find deploy/crd -name 'scriptorium.dev_*'); do \
		cmp -s "$$out/$$f" "$$f" || { echo "verify: $$f is not what it is generated from: run \`make generate\`" >&2; exit 1; }; \
	done

# Vale reads files that Go's cache of test results knows nothing of.
.PHONY: verify-prose
verify-prose: bin/vale ## Check the prose of pages and help texts
	CGO_ENABLED=0 go test -count=1 -vet=off ./internal/docs/prose

# Go decides what has to be built again, so the commands are always made.
.PHONY: $(COMMANDS:%=bin/%)
$(COMMANDS:%=bin/%): bin/%:
	@go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

bin/$(PLUGIN): bin/scriptctl
	@ln -sf scriptctl $@

# Tools are built once into the user's cache; bin/ has links to them.
TOOLS := buf controller-gen golangci-lint protoc-gen-go protoc-gen-go-grpc vale
$(TOOLS:%=bin/%): bin/%: tools/go.mod tools/go.sum
	@go run ./internal/toolcache/build --link bin $* >/dev/null && touch $@
