# Every target does its own set-up: what the project needs, its own files install.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

SERVICES := $(patsubst services/%/module.go,%,$(wildcard services/*/module.go))
MODULES  := proto pkg services test
BIN      := bin
TOOLS    := $(CURDIR)/$(BIN)/tools
export PATH := $(TOOLS):$(PATH)
export GOFLAGS ?= -buildvcs=false
VERSION  ?= 0.1.0
COMMIT   := $(shell scripts/commit.sh)
LDFLAGS  := -s -w -X kaged.dev/pkg/version.number=$(VERSION) -X kaged.dev/pkg/version.commit=$(COMMIT)
PREFIX   ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
ARGS     ?=
BENCH    ?= .

.PHONY: web screenshots help up demo test check generate build install bench fuzz fmt hooks clean toolchain setup setup-build setup-test setup-bench

help: ## Say what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: setup build ## Run kaged for your own projects (make up ARGS="--listen 127.0.0.1:8000")
	@exec $(BIN)/kaged up $(ARGS)

demo: setup build ## Watch an agent repair a failing test; needs no key
	@examples/demo.sh $(BIN)/kaged

.PHONY: compose
compose: ## Bring kaged up as containers and run the demo inside; without Docker, validate their files
	@scripts/compose.sh

build: setup-build ## Build bin/kaged and every service
	@mkdir -p $(BIN)
	@test -e $(BIN)/kaged || echo "kaged: building; the first time takes a few minutes" >&2
	@scripts/cageinit.sh
	@for s in $(SERVICES); do targets+=" ./services/$$s/cmd/$$s"; done; \
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./services/kaged/cmd/kaged $$targets

# The services beside a project's files, by the contract's list of services.
WORKSPACE = $(shell sed -n 's/^ *SERVICE_\([A-Z_]*\) = .*(workspace) = true.*/\L\1/p' proto/kaged/common/v1/options.proto | tr _ -)

.PHONY: images
images: build # Sort the programs by image into bin/images, with a folder per service for its socket
	@rm -rf $(BIN)/images
	@for s in $(SERVICES); do \
	  case " $(WORKSPACE) " in *" $$s "*) image=workspace ;; *) image=control-plane ;; esac; \
	  install -Dt $(BIN)/images/$$image $(BIN)/kaged $(BIN)/$$s; \
	  install -d -m 0777 $(BIN)/images/run/kaged $(BIN)/images/run/kaged/$$s; \
	done

install: build ## Install kaged to PREFIX/bin (default ~/.local, as root /usr/local)
	@install -d "$(DESTDIR)$(PREFIX)/bin"
	@install -m 0755 $(BIN)/kaged "$(DESTDIR)$(PREFIX)/bin/kaged"
	@echo "installed $(PREFIX)/bin/kaged"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "it is not in PATH yet: type  export PATH=\$$PATH:$(PREFIX)/bin" ;; esac

test: setup-test ## Run every test
	@scripts/test.sh

check: tools generate-check ## Check formatting, vet, lint, generated files, cross builds
	@scripts/check.sh

generate: tools ## Generate code and reference pages from their sources
	@scripts/generate.sh

.PHONY: breaking-baseline
breaking-baseline: tools ## Accept the present messages as those that make check compares with
	@buf build --exclude-source-info -o proto/baseline.binpb

.PHONY: generate-check
generate-check: tools
	@scripts/generate.sh --check

bench: setup-bench build ## Measure (make bench BENCH=regexp); prints TSV and writes bench.json
	@go run ./test/cmd/kaged-bench -run '$(BENCH)' -kaged $(BIN)/kaged -json bench.json

web: ## Build the console and the TypeScript client from their sources (needs Node 20)
	@scripts/web.sh

screenshots: setup-test ## Take pictures of every screen of the console into bin/screenshots
	@KAGED_SCREENSHOTS=$(CURDIR)/$(BIN)/screenshots go test -count=1 -tags faults -run 'TestScreens|TestATeamAtWork' ./test/console

fuzz: ## Run every fuzz target for FUZZTIME each (default 30s)
	@scripts/fuzz.sh $(or $(FUZZTIME),30s)

fmt: tools ## Format the code
	@gofumpt -l -w $$(git ls-files '*.go' | grep -v '^proto/gen/')

hooks: ## Check commit messages as they are written (git hook)
	@install -m 0755 scripts/commit-msg "$$(git rev-parse --git-path hooks)/commit-msg"

clean: ## Remove what was built
	@rm -rf $(BIN) bench.json

toolchain:
	@scripts/toolchain.sh

setup-build: toolchain
	@scripts/setup.sh build

setup: toolchain
	@scripts/setup.sh run

setup-test: toolchain
	@scripts/setup.sh test

setup-bench: toolchain
	@scripts/setup.sh bench

.PHONY: tools
tools: toolchain
	@scripts/tools.sh $(TOOLS)
