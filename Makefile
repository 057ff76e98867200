# `make help` lists the targets. Everything a target needs beyond Go and make it fetches itself.

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
BENCHTIME   ?= 1s
RUN_DIR     ?= run
SEEDS       ?= 600
SEED        ?= 1

.DEFAULT_GOAL := help
.PHONY: help run build test race lint fmt fuzz bench ci crash crash-short soak sim cases cases-short conformance interop perf clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## start a broker with its embedded name server on 127.0.0.1:9876, store below ./run
	bin/ringmq server --set storePathRootDir=$(RUN_DIR)/store

build: ## bin/ringmq
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ringmq ./cmd/ringmq

test: build ## all tests of the product, and the Go client against a running broker
	$(GO) test ./...
	cd test/e2e && RINGMQ=$(CURDIR)/bin/ringmq $(GO) test ./...
	cd test/volatile && $(GO) test ./...

race: ## the same tests under the race detector, with the invariants that cost too much in production
	$(GO) test -race -tags invariants $(TESTFLAGS) ./...

lint: ## gofmt, vet, staticcheck, tidy go.mod
	@test -z "$$(gofmt -l cmd broker engine internal namesrv net perf uring test)" || { gofmt -l cmd broker engine internal namesrv net perf uring test; exit 1; }
	$(GO) vet ./... && $(GO) vet -tags failpoints,invariants ./...
	$(GO) mod tidy -diff
	$(GO) run $(STATICCHECK) ./...

fmt: ## gofmt -w
	gofmt -w cmd broker engine internal namesrv net perf uring test

fuzz: ## every fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg >fuzz.log 2>&1 || { cat fuzz.log; exit 1; }; \
	  done; done; rm -f fuzz.log

bench: ## every benchmark for BENCHTIME (1s)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

ci: ## what a commit must pass: lint, test, race, short fuzz, short crash run
	$(MAKE) lint
	$(MAKE) test
	$(MAKE) race TESTFLAGS=-short
	$(MAKE) fuzz FUZZTIME=3s
	$(MAKE) crash-short

crash: ## kills and power cuts under load, with the mutants that must fail (needs root for the power cuts; about 20 minutes)
	test/crash/run.sh

crash-short: ## a few kills, no power cuts
	KILLS=4 CUTS=0 VCUTS=0 SLOW=0 IOERRORS=0 MODES= MUTANTS= test/crash/run.sh

soak: ## mixed load with rolls and retention for SOAK (30m): memory, descriptors and goroutines must not grow
	KILLS=0 CUTS=0 VCUTS=0 SLOW=0 IOERRORS=0 MODES= MUTANTS= SOAK=$${SOAK:-30m} test/crash/run.sh

sim: ## whole stores in simulated machines that crash, SEEDS (600) of them from SEED (1) on, and the mutants that must fail (3 minutes)
	SEEDS=$(SEEDS) FIRST=$(SEED) GO=$(GO) test/sim/run.sh

cases: build ## fault cases against a running broker: torn logs, odd files, hostile peers (needs Python 3; about 18 minutes)
	python3 test/cases/run.py --ringmq bin/ringmq

cases-short: build ## a minute of them
	python3 test/cases/run.py --ringmq bin/ringmq "H02 a" "H02 f" "H02 i" "H03 mark" "H03 y" "H04 13" "H04 17" "H05 topics" "H06 admin" "H07"

conformance: build ## real Java and Go clients against a running broker (needs Java and Maven; see test/conformance/README.md)
	test/conformance/run.sh

interop: build ## stores handed to Java brokers and back (needs Java, Maven, Python 3; see test/interop/README.md)
	test/interop/run.sh

perf: build ## side by side with Apache RocketMQ on this machine (needs Java and Maven; see perf/README.md)
	perf/peers.sh

clean: ## remove what the targets made
	rm -rf bin $(RUN_DIR) fuzz.log
