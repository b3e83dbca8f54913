# What a contributor runs is what CI runs: make check, make test and make test-all. They need Go, and nothing else that is
# installed.

SHELL := bash
.SHELLFLAGS := -eo pipefail -c

.DEFAULT_GOAL := help
.PHONY: help check test test-all tidb simulate faults many upgrade soak bench pictures site micro micro-baseline quickstart tidy release publish snapshot

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# The modules that go.work joins to the root's, and the packages of all.
MODULES := cmd/pqueue cron metrics otelqueue pgxqueue queuetest service site examples tests
PACKAGES := ./... $(MODULES:%=./%/...)

# What breaks servers and processes measures time, so it runs on its own and without the race detector.
SERVERS := go run ./tests/testenv
PRIVATE := $(SERVERS) -private
FAULT_TESTS := go -C tests/faults test -count=1
FAULTS := -- $(FAULT_TESTS)

# What fails beside other tests is run by itself before it counts as a failure.
ALONE := go run ./tests/alone
GO_TEST := $(ALONE) go test

# What says, of a run of tests, what ran on which database, what failed and what was left out.
SUMMARY := go run ./tests/summary
SAY_HOW_IT_ENDS := trap 'echo "{\"Action\":\"exit\",\"Code\":$$?}"' EXIT

# A kill, a freeze and a server's restart: what make test takes of the fault suite, and make test-all leaves out.
MAIN_FAULTS := ^Test(AKilledHolderLosesNothing|AFrozenHolderOverwritesNothing|AServerIsKilledAndComesBack)

# Go's race detector needs a C compiler. It leaves SQLite out, which is C made into Go: with it, SQLite takes five times as long.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race -gcflags=modernc.org/...=-race=false)

# Most of these tests have time stand still (testing/synctest). Go's race detector has one record for all timers of such a
# bubble, and dies of it if two processors fire timers at once (golang/go#78156). It judges by the order that locks and
# channels give, so that it sees races on one processor as well.
IN_BUBBLES := -cpu 1

help: ## This list.
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' Makefile | expand -t 22

check: race ## Without a database: format, vet, staticcheck, the floors, and the library's own tests.
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)
	go test -count=1 -run '^TestArchitecture' .
	go test $(RACE) $(IN_BUBBLES) -vet=off -p 3 -short -count=1 -timeout 10m ./cmd/pqueue/... ./... ./service/... ./cron/... ./metrics/... ./otelqueue/... ./pgxqueue/... ./queuetest/... ./site/...

# Two commands at a time, for testenv to run: it ends both if it is interrupted. The first gives way to the second. That one says what it
# does while it does it, and the first in one piece at its end, because lines of two would mix. Parts are joined by &&: in ( ), sh heeds no -e.
BESIDE = said=$$(mktemp); ($(1)) >$$said & beside=$$!; code=0; ($(2)) || code=$$?; wait $$beside || code=$$?; cat $$said; rm $$said; exit $$code
GIVING_WAY := nice -n 19

# The suite measures how soon things happen, so no other package runs beside it. The service and the faults come next, and what compiles gives
# way to them.
test: ## The promises on SQLite, MariaDB, MySQL and PostgreSQL, which testenv provides; a kill, a freeze, a restart.
	@{ $(SAY_HOW_IT_ENDS); $(SERVERS) -- sh -ec '$(GO_TEST) $(AS_USUAL) ./tests; \
	  $(call BESIDE,$(GIVING_WAY) $(GO_TEST) $(AS_USUAL) ./tests/way ./cmd/pqueue/...,$(GO_TEST) $(AS_USUAL) ./tests/service)'; \
	  $(PRIVATE) -leave-out -- sh -ec '$(call BESIDE, \
	    $(GIVING_WAY) $(GO_TEST) $(AS_USUAL) ./examples/..., \
	    $(ALONE) $(FAULT_TESTS) -json -short -run "$(MAIN_FAULTS)" -parallel 6 -timeout 10m)'; \
	} | $(SUMMARY) -rest 'make check tests what needs no server, make test-all everything else'

# Most of the time, a test waits, so that many run at a time. A test that measures milliseconds is not parallel and runs alone. Of packages
# that have to be alone, one runs at a time: -p 1. What go vet would say, make check has said.
AS_USUAL := -json -vet=off -short -count=1 -parallel 16 -timeout 20m
IN_FULL := -json -vet=off -count=1 -p 1 -parallel 8 -timeout 60m
RACING := $(RACE) -short $(IN_FULL)
ONE_BY_ONE := -json -vet=off -count=1 -p 1 -timeout 30m

# What is left out: tests, and then databases, however deep they stand in a test's name. In this order: go test takes the first pattern
# that a name matches so far, and every test matches that of a database so far.
NOT_ON = -skip "$(if $(2),$(2)|)/^($(1))$$|//^($(1))$$"

# The tests that have a line with a pattern, in some files.
TESTS_WITH = ^($(shell awk '/^func Test/ { test = $$2; sub(/[^A-Za-z0-9_].*/, "", test) } /^}/ { test = "" } \
	test && /$(1)/ { printf "%s%s", bar, test; bar = "|"; test = "" }' $(2)))$$

# The tests that make test leaves out, or shortens, or makes some sessions of. A test at the root says which one is missing here.
AT_LENGTH := $(call TESTS_WITH,\t(long\(t\)|.*testing\.Short|.*unlessShort|.*eachSession),tests/*_test.go tests/service/*_test.go)

# The tests of the service as a process of its own, which is built as users build it: the race detector does not see into that.
OF_PROCESSES := $(call TESTS_WITH,= run.t,tests/service/*_test.go)

ifneq "$(filter ^()$$,$(AT_LENGTH) $(OF_PROCESSES))" ""
$(error the tests that make test leaves out, or those of processes, are not found: awk says above why)
endif

MUTANTS := ^TestTheTestsTurnRedForEachMutant$$
THOUSAND := ^TestAThousandStartsAndStopsLeaveNothingBehind$$

# What may race is the library's code, which is the same for all servers. So the race detector has SQLite and one server, and the short form
# of what is long, which mostly has more jobs. It stretches the bounds on time, but gives way to nothing: behind tests that compute for
# minutes, a database in the process does not answer within three seconds. A thousand starts and stops measure no time, but leave nothing
# behind in a process that is theirs alone. Worlds and compilers give way to the faults; what measures time and computes (the browser, the
# service's senders, testenv) runs alone.
test-all: race ## What make test leaves out: the race detector, long tests, all sessions, 10,000 worlds, short faults, clusters, a browser.
	@{ $(SAY_HOW_IT_ENDS); $(SERVERS) -- sh -ec '$(call BESIDE, \
	    $(GO_TEST) $(RACING) $(call NOT_ON,MySQL|PostgreSQL,$(THOUSAND)) ./tests, \
	    $(GO_TEST) $(IN_FULL) -run "$(AT_LENGTH)" -skip "$(THOUSAND)" ./tests && \
	    $(GO_TEST) $(IN_FULL) -run "$(AT_LENGTH)" -skip "$(MUTANTS)" ./tests/service && \
	    $(GO_TEST) $(RACING) $(call NOT_ON,MySQL|PostgreSQL,$(OF_PROCESSES)|$(MUTANTS)) ./tests/service && \
	    nice $(GO_TEST) $(IN_FULL) -run "$(THOUSAND)" ./tests)'; \
	  $(SERVERS) -browser -- sh -ec '$(GO_TEST) $(ONE_BY_ONE) -parallel 4 ./tests/browser; \
	  $(GO_TEST) $(ONE_BY_ONE) ./service/internal/deliver ./tests/shells'; \
	  $(GO_TEST) $(ONE_BY_ONE) ./tests/testenv; \
	  $(PRIVATE) -leave-out -- sh -ec '$(call BESIDE, \
	    PQ_SIM_SEEDS=10000 $(GIVING_WAY) $(GO_TEST) $(ONE_BY_ONE) -run "^TestNothingIsLost|$(MUTANTS)" ./internal/simulator ./tests/service && \
	    $(GIVING_WAY) $(GO_TEST) $(ONE_BY_ONE) -run "^TestASeed|^TestEveryMutant|^TestEveryKnownFailure" ./internal/simulator ./operate ./tests/faults && \
	    $(GIVING_WAY) $(GO_TEST) $(ONE_BY_ONE) ./tests/dbtest ./tests/release ./tests/summary ./tests/alone ./tests/bench && \
	    $(GIVING_WAY) $(ALONE) go -C tests/deploy test $(ONE_BY_ONE) ., \
	    $(ALONE) $(FAULT_TESTS) -json -short -skip "$(MAIN_FAULTS)" -parallel 6 -timeout 45m)'; \
	} | $(SUMMARY) -rest 'make faults has the whole fault suite'

NOT_OTHERS := $(call NOT_ON,SQLite|MariaDB|MySQL|PostgreSQL)

# What goes without the triggers that TiDB lacks, beside the main faults.
TIDB_FAULTS := ^Test(InstancesThatWereAllFrozen|TransfersHappenExactlyOnce|ABlackHoleBefore|RepliesAreLost|AConnectionCutAtEveryByte|ThirtyPercentOfStatements|ADeployLosesNothing)

tidb: ## The promises on TiDB, and the main faults: one server without TiKV, which is built from Go modules the first time.
	@{ $(SAY_HOW_IT_ENDS); $(SERVERS) -tidb -- go test -json -count=1 $(NOT_OTHERS) -parallel 8 -timeout 40m ./tests; \
	  $(PRIVATE) -tidb $(FAULTS) -json $(NOT_OTHERS) -run '$(MAIN_FAULTS)|^TestAHolderFrozenBetweenMarkAndSettle|^TestADeadProcessIsReplacedWithinSecondsHowever' -parallel 3 -timeout 20m; \
	  $(PRIVATE) -tidb $(FAULTS) -json $(NOT_OTHERS) -short -run '$(TIDB_FAULTS)' -parallel 3 -timeout 20m; \
	} | $(SUMMARY) -rest 'make test and make test-all run the tests on the other databases'

simulate: ## Ten thousand simulated worlds in which everything goes wrong by a seed.
	PQ_SIM_SEEDS=10000 go test -count=1 -v -timeout 30m -run '^TestNothingIsLost' ./internal/simulator
	PQ_SIM_SEEDS=2000 go test -count=1 -v -timeout 30m -run '^TestFlowsGoOn' ./internal/simulator
	go test -count=1 -run '^TestASeed' ./internal/simulator
	PQ_SIM_SEEDS=10000 go test -count=1 -v -timeout 30m -run '^Test(WhatIsSaidOfAJob|No.*ContradictsItsEvidence|WhatIsAdvised)' ./operate ./internal/faces

# How several instances share the work: who has what, who goes on with it, what it costs.
MANY := ^Test(JobTypesAreShared|ATypeWithLongHandlers|ABusyType|ADeployOfSix|NothingMoves|ThreeProcesses|HandlersThatCompute|ATypeInOrder|ARateHolds|HandOversInAFleet|AProcessFrozenInTheMiddle|FiftyIdle|RowsOfOthers|HandOversAndDivisions)

faults: ## Kill, freeze and cut real processes and servers, for an hour and a quarter; writes tests/faults/results.
	{ $(MAKE) --no-print-directory simulate; PQ_SIM_MUTANTS=1 go test -count=1 -timeout 150m -v -run 'KnownFailures|KnownContradictions' ./internal/simulator ./operate; } | tee tests/faults/results/simulator.txt
	PQ_FAULTS_RESULTS=results/last.md $(PRIVATE) $(FAULTS) -skip '$(MANY)' -parallel 3 -timeout 2h

many: ## Many machines, at full length: shares, hand-overs, shards, deploys, for fifty minutes; writes tests/faults/results.
	PQ_FAULTS_RESULTS=results/many.md $(PRIVATE) $(FAULTS) -run '$(MANY)' -parallel 3 -timeout 2h

upgrade: ## A rolling upgrade from an older version under load, and back: make upgrade FROM=c57353d, a commit of this repository.
	@test -n "$(FROM)" || { echo "say which version: make upgrade FROM=<commit>"; exit 2; }
	older=$$(mktemp -d); trap 'git worktree remove --force "$$older/tree"; rm -rf "$$older"' EXIT; \
	git worktree add --detach "$$older/tree" "$(FROM)"; (cd "$$older/tree/tests/faults"; go test -c -o "$$older/worker" .); \
	PQ_FAULTS_OLDER="$$older/worker" $(PRIVATE) $(FAULTS) -v -run '^TestAnOlderVersion' -timeout 20m

soak: ## Mix faults at random: make soak FOR=30m SEED=1 (the default: ten minutes, a seed that it prints).
	PQ_FAULTS_SOAK=$(or $(FOR),10m) PQ_FAULTS_SEED=$(SEED) $(PRIVATE) $(FAULTS) -run '^TestASoak' -timeout 0

bench: ## Compare with River, asynq and plain SQL, for hours; writes tests/bench/results: make bench ARGS="-only drain".
	$(SERVERS) -redis -- go run ./tests/bench $(ARGS)

pictures: ## Take the pictures of the console that the documents show, which takes twenty minutes.
	PQ_TEST_PICTURES=$(CURDIR)/docs/operate/console $(SERVERS) -browser -- go test -count=1 -timeout 45m -run '^TestTheShop' ./tests/browser

site: ## Make the website of the documents, in English and Chinese: site/dist.
	go run ./site

# The benchmarks beside the hot code, and what they came to when their baseline was committed.
MICRO := go test -run '^$$' -bench . -benchtime 100ms -count 6 ./internal/pipeline ./internal/store
MICRO_BASELINE := tests/bench/results/micro.txt

micro: ## Micro-benchmarks of the hot code beside the committed baseline; on another machine, the allocations say most.
	@now=$$(mktemp); trap 'rm -f $$now' EXIT; $(MICRO) >$$now; go run $(BENCHSTAT) -ignore cpu $(MICRO_BASELINE) $$now

micro-baseline: ## Write that baseline anew.
	@mkdir -p $(dir $(MICRO_BASELINE)); $(MICRO) | tee $(MICRO_BASELINE)

quickstart: ## The first example.
	go run ./examples/quickstart

release: ## Give all modules a version: a commit and tags, tried from outside. Pushes nothing: make release VERSION=v0.1.0.
	@test -n "$(VERSION)" || { echo "say which version: make release VERSION=v0.1.0"; exit 2; }
	go run ./tests/release $(VERSION)

# At HEAD is the tag of each module; goreleaser is told which it is about.
publish: ## What the workflow does at a tag: binaries, checksums, SBOMs and the image, into GitHub: make publish VERSION=v0.1.0.
	@test -n "$(VERSION)" || { echo "say which version: make publish VERSION=v0.1.0"; exit 2; }
	notes=$$(mktemp); trap 'rm -f $$notes' EXIT; go run ./tests/release -notes $(VERSION) >$$notes; \
	GORELEASER_CURRENT_TAG=$(VERSION) go run $(GORELEASER) release --clean --release-notes $$notes

snapshot: ## The same without a tag, without the image, and to .build/dist; the first time, it compiles goreleaser for minutes.
	go run $(GORELEASER) check
	go run $(GORELEASER) release --clean --snapshot --skip=docker

# The modules require a version of each other that go.work alone knows, until it is published. go mod tidy does not ask go.work, so for its time each
# go.mod is told where the others are. go doc asks for more checksums than go build.
OURS := github.com/create-info/persistent-queue
tidy: ## After a change of imports or versions: bring go.mod, go.sum and go.work.sum up to date.
	for module in . $(MODULES); do (cd $$module; root=$$(realpath --relative-to=. $(CURDIR)); \
		trap 'go mod edit -dropreplace=$(OURS) $(MODULES:%=-dropreplace=$(OURS)/%)' EXIT; \
		go mod edit -replace=$(OURS)=$$root; \
		for other in $(MODULES); do go mod edit -replace=$(OURS)/$$other=$$root/$$other; done; \
		GOWORK=off go mod tidy); done
	go -C tests/deploy mod tidy
	go list -deps -test $(PACKAGES) >/dev/null
	go doc . >/dev/null

.PHONY: race
race:
	@test -n "$(RACE)" || echo "without the race detector: it needs cgo and a C compiler"
