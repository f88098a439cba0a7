# What a contributor runs. CI runs `make check` and nothing else.

GO       ?= go
FUZZTIME ?= 3s

# Programs the tests need, and the Debian packages that have them. The race
# detector links with a C compiler; the product itself is built without one.
NEEDS = gcc=gcc,libc6-dev curl=curl node=nodejs npm=npm chromium=chromium /usr/lib/postgresql/*/bin/postgres=postgresql ip=iproute2

# The end-to-end tests run a second time on PostgreSQL, with fewer messages.
SHORT = -kills=5 -queue-messages=400 -flow-messages=1500 -restart-runs=300

.DEFAULT_GOAL := help
.PHONY: help build console test check format vet lint fuzz torture river bench deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/posthaste, one static file
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/posthaste ./cmd/posthaste

console: deps ## build what internal/console embeds from web/
	cd web && npm run --silent check && npm run --silent build

test: deps build ## every test, under the race detector
	$(GO) test -race ./...
	POSTHASTE_E2E_BINARY=$(CURDIR)/bin/posthaste $(GO) test -timeout 20m ./e2e -backend=postgres $(SHORT)

check: format vet lint test fuzz ## all that must hold before a merge

format: ## fail if a file is not gofmt's output
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi

vet: ## what the compiler does not see
	$(GO) vet ./...

lint: ## staticcheck (staticcheck.conf) and unhandled errors (tools/errcheck.txt)
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) tool -modfile=tools/go.mod errcheck -ignoretests -exclude tools/errcheck.txt ./...

fuzz: ## every fuzz target for a few seconds, FUZZTIME=3s
	GO=$(GO) .ci/fuzz $(FUZZTIME)

torture: deps ## kills of a loaded server, power loss and random workflows by many seeds
	$(GO) test -race -run TestKill -timeout 1h ./e2e -kills=100
	$(GO) test -race -run 'TestRestart$$' -timeout 1h ./e2e -restart-runs=10000
	WORKFLOW_SEEDS=500 $(GO) test -run TestRandom -timeout 1h ./internal/workflow
	STORETEST_SEEDS=1000 $(GO) test -run TestCrash -timeout 1h ./internal/store/lsm

river: ## build bin/river, the job queue that bench cluster compares with
	cd tools/river && $(GO) build -o ../../bin/river .

bench: build ## throughput and latency of this tree on this machine
	bin/posthaste bench

deps: ## install what the tests need and this machine lacks
	@.ci/deps $(NEEDS)
