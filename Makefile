# Lockstep. `make` lists the targets.

VERSION ?= $(shell git describe --tags --always 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Everything is compiled as what is published is, so that checks, tests and packages share what one of them has compiled.
# Only the race detector, which needs C, has a second set.
export GOFLAGS := -trimpath $(shell go env GOFLAGS)
export CGO_ENABLED := 0
race build-race: export CGO_ENABLED := 1

# Tools have a module of their own, so that what they need is not what the product needs.
TOOL := go tool -modfile=tools/go.mod
FUZZTIME ?= 10s
# A package whose tests take longer is stuck; on a slow machine one can take some minutes.
TEST_LIMIT ?= 30m
SOAK_TIME ?= 30m
CHAOS_TIME ?= 10m
SIM_TIME ?= 10m
# The first seed is a number, or `commit`: then the hash of the commit gives it, so that each commit simulates other seeds.
SIM_FIRST ?= 0
comma := ,

.PHONY: help dev build build-race release image client install setup setup-all test test-all unit race e2e soak soak-state chaos chaos-watch chaos-txm vet lint fmt alerts chart generate verify bench bench-dev bench-txm bench-ponder proof sim attack fuzz cover

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

dev: build ## build and start a chain and a relay in one process
	./bin/lockstep dev

BINARY ?= bin/lockstep
build: ## build bin/lockstep
	go build -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/lockstep

PLATFORMS ?= linux/amd64,linux/arm64
release: ## make what is published, in dist/: packages, archives, an image, checksums (VERSION=1.2.3), and check how that is made
	go run -C tools ./release -version $(VERSION) -platforms $(PLATFORMS)
	LOCKSTEP_RELEASE_PLATFORMS=$(PLATFORMS) go test -count=1 -run 'TestRelease$$/(archive|image|package|installed|npm)' ./e2e/packaging

image: ## build the container image lockstep, with docker
	docker build --build-arg VERSION=$(VERSION) -t lockstep .

client: ## pack lockstep-txm, the client for TypeScript, in dist/ (needs npm)
	mkdir -p dist
	cp LICENSE clients/typescript/
	cd clients/typescript && npm install --no-package-lock --no-audit --no-fund && npm pack --pack-destination ../../dist

PREFIX ?= /usr/local
install: build ## put lockstep on the PATH, in PREFIX/bin (PREFIX=/usr/local)
	install -D -m 0755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/lockstep

setup: ## install what `make test` needs, if absent
	./scripts/setup.sh

setup-all: ## install what `make test-all` and the benchmarks need, if absent
	./scripts/setup.sh all

# What the tests of the binary need more than `make setup` installs, or minutes each, is in `make test-all` alone.
LONG_E2E := TestDocumentsRun|TestHardhat|TestLive|TestForgeProject|TestEdgeWorkers.*|TestConformance
# One end-to-end test of each kind of process, and of each kind of fault that it must survive.
SOME_E2E := TestKilledInBurst|TestRedisTrouble|TestAlternatingRelays|TestCrowd|TestCrashMatrix|TestBump|TestHederaThroughRelay|TestKilledInTheMiddle
PARTS_E2E := ./e2e/fleet ./e2e/txm ./e2e/watchers

# Tests wait more than they compute: for processes, for blocks, for what must not happen. So more packages run at a time than there are processors.
test: setup ## what a change must pass first: unit and contract tests, the clients, and one end-to-end test of each kind
	go test -timeout $(TEST_LIMIT) -p 4 $$(go list ./... | grep -v '/e2e')
	go test -timeout $(TEST_LIMIT) -skip '^($(LONG_E2E))$$' ./e2e
	go test -timeout $(TEST_LIMIT) -p 3 -run '^($(SOME_E2E))$$' $(PARTS_E2E)

# Under the race detector are all rooms but those that start the binary, and the simulation, which shares no data.
UNRACED := /(bench|lock/locksim)

test-all: setup-all test race ## everything: also the race detector, Hardhat, Chromium, chaos, nodes, packages, and nine rows of the proof
	go test -timeout $(TEST_LIMIT) -run '^($(LONG_E2E))$$' ./e2e
	go test -timeout $(TEST_LIMIT) -p 3 -skip '^($(SOME_E2E))$$' $$(go list ./e2e/... | grep '/e2e/')
	./scripts/proof.sh quick

unit: ## the quick tests only
	go test -short ./...

race: setup-all ## unit and contract tests under the race detector, which needs a C compiler
	go test -race -timeout $(TEST_LIMIT) -p 4 $$(go list ./... | grep -vE '/e2e|$(UNRACED)')

e2e: setup-all ## real clients against the real binary
	go test -timeout $(TEST_LIMIT) -count=1 -p 3 ./e2e/...

soak: setup-all ## half an hour of constant load and constant trouble (SOAK_TIME=30m)
	LOCKSTEP_SOAK_TIME=$(SOAK_TIME) go test -count=1 -v -timeout 24h -run TestSoak ./e2e/fleet

soak-state: setup-all ## half an hour of transfers on a network that is kept in a file, and killed (SOAK_TIME=30m)
	LOCKSTEP_SOAK_TIME=$(SOAK_TIME) go test -count=1 -v -timeout 24h -run TestSoakOfAState ./e2e/devnet

chaos: setup-all ## kill, stop and cut off relays, Redis and nodes for ten minutes, and write the table of docs/internals/FAULTS.md (CHAOS_TIME=1h, FAULT=FLUSHALL for some)
	LOCKSTEP_CHAOS_TIME=$(CHAOS_TIME) LOCKSTEP_CHAOS_FAULT='$(FAULT)' LOCKSTEP_CHAOS_DOC='$(CURDIR)/docs/internals/FAULTS.md' go test -count=1 -v -timeout 24h -run 'TestEveryFault$$' ./e2e/fleet

chaos-watch: setup-all ## kill and stop event watchers for ten minutes (CHAOS_TIME=10m)
	LOCKSTEP_CHAOS_TIME=$(CHAOS_TIME) go test -count=1 -v -timeout 24h -run TestKilledWatchers ./e2e/watchers

bench-ponder: setup-all ## the same events through lockstep watch and through ponder, which it installs into .ponder
	./scripts/ponder.sh

chaos-txm: setup-all ## kill transaction managers, their database and their nodes for ten minutes (CHAOS_TIME=10m)
	LOCKSTEP_CHAOS_TIME=$(CHAOS_TIME) go test -count=1 -v -timeout 24h -run TestChaos ./e2e/txm

vet: ## the compiler's own checks
	go vet ./...

lint: ## static checks and the shape of the tree
	$(TOOL) golangci-lint run ./...
	go test ./internal/treetest

fmt: ## format the code
	$(TOOL) golangci-lint fmt ./...

bin/protogen: tools/go.mod tools/protogen/main.go
	go build -C tools -o ../bin/protogen ./protogen

PROTOC_GEN_GO := go tool -modfile=../../tools/go.mod protoc-gen-go

generate: bin/protogen ## remake the generated files
	cd internal/hapi && ../../bin/protogen hapi.proto $(PROTOC_GEN_GO)
	go test ./config -run TestDocs -update >/dev/null
	go test ./app -run TestMetricsDocument -update >/dev/null
	go test ./ethapi -run TestMethodsDocument -update >/dev/null
	go test ./txmgr/api -run TestTypeScript -update >/dev/null
	cp docs/relay-alerts.yml packaging/helm/lockstep/files/

alerts: ## check alert rules and dashboards with Prometheus's own parser, and whether alerts fire
	go test -C tools/alerts -count=1 .

chart: ## render the Helm chart with Helm itself, check it with kubeconform and the relay, and load the compose file
	go test -C tools/chart -count=1 .

verify: bin/protogen ## fail when a generated file or go.mod is stale
	go mod tidy -diff
	@rm -rf bin/.verify && mkdir bin/.verify && cp internal/hapi/hapi.proto bin/.verify/
	cd bin/.verify && ../protogen hapi.proto $(PROTOC_GEN_GO)
	diff -u internal/hapi/hapi.pb.go bin/.verify/hapi.pb.go
	diff -u docs/relay-alerts.yml packaging/helm/lockstep/files/relay-alerts.yml
	go test -run 'TestDocs|TestMetricsDocument|TestMethodsDocument' ./config ./app ./ethapi

bench: setup-all ## measure, print the figures with their spread and write docs/PERFORMANCE.md and its figures (ROWS=reads-limit,burst for some)
	./scripts/bench.sh -doc docs $(if $(ROWS),-rows $(ROWS))
	$(if $(ROWS),,$(MAKE) bench-txm)

bench-dev: setup-all ## measure the development network: start, memory, transfers through the whole relay
	go test -count=1 -v -run TestWeight ./e2e/devnet

bench-txm: setup-all ## measure the transaction manager alone
	go test -count=1 -run '^$$' -bench BenchmarkManager -benchtime 3x -timeout 1h ./e2e/txm

proof: ## check the model of the lock over Redis, and break it (ROWS=calm,kill for some, ROWS=quick for those that take seconds)
	./scripts/proof.sh $(subst $(comma), ,$(ROWS))

sim: ## simulate relays, their Redis and its network, seed after seed (SIM_TIME=10m, SIM_FIRST=0, or SIM_FIRST=commit for seeds of its own)
	go test -count=1 -v -timeout 0 -run 'TestSimulation$$' ./lock/locksim -simtime $(SIM_TIME) -first $(if $(filter commit,$(SIM_FIRST)),$(shell printf '%d' 0x$$(git rev-parse --short=8 HEAD | cut -c1-8)),$(SIM_FIRST))

attack: $(if $(RACE),build-race,build) ## do to a relay what a stranger may do, and print what it cost (ATTACKS=simulate-bomb,logs for some, RACE=1 under the race detector)
	go run ./bench/attack $(if $(RACE),-race -lockstep bin/lockstep-race,-lockstep bin/lockstep) $(if $(ATTACKS),-attacks $(ATTACKS))

build-race:
	go build -race -o bin/lockstep-race ./cmd/lockstep

fuzz: ## run every fuzz target for FUZZTIME each
	./scripts/fuzz.sh $(FUZZTIME)

cover: ## test coverage by package, into cover.out
	go test -short -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -n 1
