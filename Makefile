# What a contributor runs is what CI runs: make check and make test. Both need Go, and nothing else that is installed.

.DEFAULT_GOAL := help
.PHONY: help check test quickstart

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The modules that go.work joins, as ./... patterns.
MODULES := $(shell go list -m -f '{{.Dir}}' | sed 's|^$(CURDIR)|.|; s|$$|/...|')

# Go's race detector needs a C compiler.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

help: ## This list.
	@sed -n 's/^\([a-z]*\):.*## /make \1	/p' Makefile | expand -t 18

check: race ## Without a database: format, vet, staticcheck, the floors, and the library's own tests.
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet $(MODULES)
	go run $(STATICCHECK) $(MODULES)
	go test -count=1 -run '^TestArchitecture' .
	go test $(RACE) -count=1 -timeout 3m ./...

test: race ## Every test on every database: SQLite, MariaDB and MySQL, which testenv provides.
	go run ./testenv -- go test $(RACE) -count=1 -parallel 8 -timeout 9m $(MODULES)

quickstart: ## The first example.
	go run ./examples/quickstart

.PHONY: race
race:
	@test -n "$(RACE)" || echo "without the race detector: it needs cgo and a C compiler"
