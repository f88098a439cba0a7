# What a contributor runs. CI runs `make check` and nothing else.

GO       ?= go
FUZZTIME ?= 1m
DURATION ?= 10m

# How often make torture kills a server, takes the power away, and damages each file in
# each way.
KILLS   ?= 1000
SEEDS   ?= 10000
DAMAGES ?= 1000

# How many clients are slow in make torture, each with a file of the test and, for half of
# them, one of the server.
SLOW ?= 10000

# How many random histories it tells to all backends, and crashes on PostgreSQL.
HISTORIES ?= 200

# Programs the tests need, and the Debian packages that have them. The race
# detector links with a C compiler; the product itself is built without one.
NEEDS = gcc=gcc,libc6-dev curl=curl node=nodejs npm=npm chromium=chromium chromium-headless-shell=chromium-headless-shell python3=python3 /usr/lib/postgresql/*/bin/postgres=postgresql /usr/sbin/pgbouncer=pgbouncer ip=iproute2

# Versions of PostgreSQL for make postgres-versions. The last one is for all tests, where npm has it;
# elsewhere, and by go test alone, the newest that Debian has installed is used.
POSTGRES_VERSIONS = 14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17
NEWEST_POSTGRES = $(lastword $(POSTGRES_VERSIONS))
export POSTHASTE_TEST_POSTGRES ?= $(wildcard $(CURDIR)/bin/postgres/$(NEWEST_POSTGRES)/node_modules/*/*/native/bin)

# Packages in which most happens at the same time: their tests run a second time, in their
# short form, under the race detector; of those on PostgreSQL the ones with several nodes or
# callers. Those of MORE_RACE do so in make torture; the program that RACE_PROGRAM tests has
# them in it.
RACE = ./internal/dispatch ./internal/engine ./internal/eventlog ./internal/store/lsm
MORE_RACE = ./internal/alert ./internal/api ./internal/app ./internal/client ./internal/store/postgres ./internal/telemetry ./internal/workflow
RACE_POSTGRES = -run 'Conformance|Concurrency|Nodes|Crowded|UnderLoad|AtOnce' $(POSTGRES)

# The end-to-end tests in which the program itself is under the race detector.
RACE_PROGRAM = -run '^(TestKill|TestFollow|TestFlowControl)$$' -kills=3 -flow-messages=500 -follow-messages=200

# The end-to-end tests to which it makes a difference that the store is a PostgreSQL.
ON_POSTGRES = -run '^Test(Cluster|Copy|DatabaseCommands|Kill|Log|Partition|Queue|Restart|RestartThroughTwoNodes|SDK|Workflows)$$' \
	-kills=4 -queue-messages=200 -log-messages=300 -restart-runs=100 -cluster-kills=4

# The packages whose tests take longest come first: one that is begun last keeps a processor
# idle. Those of POSTGRES mostly wait for their database.
LONGEST = ./internal/workflow ./internal/store/... ./internal/api
POSTGRES = ./internal/store/postgres

# How make test runs go test, which need not vet what make vet has: make check runs both.
TEST = $(GO) test -vet=off

# What is shipped is built without cgo, and so is what is tested, except under the race detector.
export CGO_ENABLED = 0
WITH_RACE = CGO_ENABLED=1

.DEFAULT_GOAL := help
.PHONY: help build console test test-postgres test-packages test-program test-program-again check format vet lint lint-deploy vulnerabilities fuzz torture soak postgres-versions river dbos bench names deps bin/tested

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/posthaste, one static file
	$(GO) build -trimpath -o bin/posthaste ./cmd/posthaste

console: deps ## build the console from web/ into internal/console
	cd web && npm run --silent check && npm run --silent build

test: deps ## run every test
	$(MAKE) --no-print-directory -j2 --output-sync test-program test-postgres test-packages test-program-again

test-packages: ## run the tests of packages, and those of RACE again under the race detector
	$(TEST) -timeout 25m $$($(GO) list $(LONGEST) ./... | grep -vE '/(e2e|store/postgres)$$')
	$(GO) -C tools/bench test -vet=off -timeout 25m .
	$(WITH_RACE) $(TEST) -race -short -timeout 25m $(RACE)

test-postgres: ## run the tests of the store on PostgreSQL
	$(TEST) -timeout 25m $(POSTGRES)

test-program: bin/tested ## run the end-to-end tests
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/tested $(TEST) -timeout 25m ./e2e

test-program-again: bin/tested ## run some of them on PostgreSQL, and some and those of RACE_POSTGRES under the race detector
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/tested $(TEST) -timeout 25m ./e2e -backend=postgres $(ON_POSTGRES)
	$(WITH_RACE) $(GO) build -race -o bin/tested-race ./cmd/posthaste
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/tested-race $(TEST) -timeout 25m ./e2e $(RACE_PROGRAM)
	$(WITH_RACE) $(TEST) -race -short -timeout 25m $(RACE_POSTGRES)

bin/tested:
	$(GO) build -o $@ ./cmd/posthaste

check: format vet lint vulnerabilities test ## run what CI runs: format, vet, lint, vulnerabilities and tests

format: ## fail if a file is not formatted by gofmt
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi

vet: ## run go vet
	$(GO) vet ./...
	$(GO) -C tools/bench vet .

lint: ## run staticcheck (staticcheck.conf) and errcheck (tools/errcheck.txt)
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) tool -modfile=tools/go.mod errcheck -ignoretests -exclude tools/errcheck.txt ./...

lint-deploy: ## lint the API description and deploy/, each file with its format's tool
	GO=$(GO) .ci/lint-deploy

vulnerabilities: ## report known vulnerabilities in called code; GOVULNDB=DIR works offline
	GO=$(GO) .ci/vulnerabilities

fuzz: ## run every fuzz target for a minute, or FUZZTIME=10m
	GO=$(GO) .ci/fuzz $(FUZZTIME)

torture: deps ## run kills, power losses, damage, broken disks, wrong clocks, slow clients; KILLS=1000
	$(WITH_RACE) $(GO) build -race -o bin/tested-race ./cmd/posthaste
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/tested-race $(WITH_RACE) $(GO) test -race -run 'TestKill$$' -v -timeout 2h ./e2e -kills=$(KILLS)
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/tested-race $(WITH_RACE) $(GO) test -race -run 'TestRestart$$' -timeout 1h ./e2e -restart-runs=10000
	$(GO) test -run 'TestLog$$' -timeout 1h ./e2e -log-messages=1200
	$(GO) test -run 'TestLog$$' -timeout 1h ./e2e -log-messages=1200 -backend=postgres
	$(GO) test -run '^Test(FlowControl|Follow|Memory|SDKAreas)$$' -timeout 1h ./e2e -backend=postgres
	$(WITH_RACE) $(GO) test -race -timeout 1h $(RACE) $(MORE_RACE)
	WORKFLOW_SEEDS=500 $(GO) test -run TestRandom -timeout 1h ./internal/workflow
	WORKFLOW_SEEDS=$(HISTORIES) $(GO) test -run 'TestFlowsOfTwoNodes$$' -timeout 2h ./internal/workflow
	STORETEST_SEEDS=$(SEEDS) $(GO) test -run 'TestCrash$$' -timeout 2h ./internal/store/lsm
	STORETEST_SEEDS=$(HISTORIES) $(GO) test -run 'TestCrash$$|TestHistories$$' -timeout 2h ./internal/store/postgres ./internal/store/partition
	$(GO) test -run 'TestHistories$$' -timeout 2h ./internal/api -histories=$(HISTORIES)
	$(GO) test -run 'TestCluster$$' -timeout 1h ./e2e -backend postgres -cluster-kills=100
	DAMAGE_SEEDS=$(DAMAGES) $(GO) test -run TestDamage -v -timeout 1h ./internal/store/lsm
	$(GO) test -run 'TestMissingFile|TestFailingDisk|TestStall|TestFullDisk' -v ./internal/store/lsm
	$(GO) test -run Clock -v ./internal/engine
	$(GO) test -run 'TestPictures$$' -timeout 1h ./e2e -screenshots $(CURDIR)/bin/screenshots
	$(GO) test -run 'TestFullDisk$$|TestNoSpaceLeft|TestDirectoryInUse|TestDamagedDirectory|TestBackup$$' -v -timeout 1h ./e2e -need-root
	$(GO) test -run TestSlowClients -v -timeout 2h ./e2e -slow-clients=$(SLOW)
	$(GO) build -o bin/tested ./cmd/posthaste
	$(GO) -C tools/bench test -run 'TestProgram$$' -v -timeout 1h . -posthaste $(CURDIR)/bin/tested

soak: deps build ## run hours of mixed load and fail if anything has grown; DURATION=4h
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/posthaste $(GO) test -run 'TestSoak$$' -v -timeout 0 ./e2e -soak=$(DURATION)

postgres-versions: ## run the store's conformance suite and the program on each of POSTGRES_VERSIONS
	$(GO) build -o bin/tested ./cmd/posthaste
	@set -e; for version in $(POSTGRES_VERSIONS); do \
		export POSTHASTE_TEST_POSTGRES=$$(.ci/postgres $$version); \
		echo "PostgreSQL $$version"; \
		$(GO) test -short -timeout 20m -run '^Test(Conformance|Seam|Histories|CrowdedMoment|Retention.*)$$' ./internal/store/postgres ./internal/store/postgres/schema; \
		POSTHASTE_E2E_BINARY=$(CURDIR)/bin/tested $(GO) test -timeout 20m ./e2e -backend=postgres -run '^Test(DatabaseCommands|Kill|Copy|Queue)$$' -kills=3 -queue-messages=200; \
	done

river: ## build bin/river, the job queue that bench cluster compares with
	cd tools/river && $(GO) build -o ../../bin/river .

dbos: ## build bin/dbos, another one
	cd tools/dbos && $(GO) build -o ../../bin/dbos .

bench: build ## measure throughput and latency on this machine; SCENARIOS="publish latency"
	$(GO) -C tools/bench run . --posthaste $(CURDIR)/bin/posthaste $(SCENARIOS)

names: ## copy the URLs and image name in deploy/names.env into the files that contain them
	@deploy/release/names

deps: ## install what the tests need and this machine lacks
	@.ci/deps $(NEEDS)
	@.ci/postgres $(NEWEST_POSTGRES) >/dev/null || echo "the tests use the PostgreSQL that is installed"
