# `make help` lists the targets. Everything runs in .venv, which is made from the hash-locked requirements.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

BIN := .venv/bin
export PYTHONSAFEPATH := 1
# Byte code is kept, also where the caller's shell forbids it: the tests start hundreds of programs.
unexport PYTHONDONTWRITEBYTECODE
# Programs under test print as they do for users, also where the caller's shell changes that.
unexport PYTHONUNBUFFERED
# The Node.js that comes with the locked requirements, never one that happens to be on PATH.
export PYRIGHT_PYTHON_GLOBAL_NODE := off

# How many test processes at once; they wait as much as they compute. 0: in this one (needed for --pdb).
JOBS ?= 4
# More for pytest: make unit ARGS="-k expired -x"
ARGS ?=
PYTEST = $(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)
TIERS := arch unit chart contract integration property kill
# Python trees to format and lint, those that are there.
SOURCES = $(wildcard core/src process/src control/src kubernetes_client/src worker_sidecar/src admin/src web/src local/src cli/src operator/src charts tests bench examples scripts)

.PHONY: help
help: ## lists the targets
	@if [ -t 1 ]; then bold=$$(printf '\033[1m') plain=$$(printf '\033[0m'); fi; \
	awk -F ':.*## ' -v bold="$$bold" -v plain="$$plain" \
	    '/^[a-z][a-z-]*:.*## / { printf "  %s%-15s%s %s\n", bold, $$1, plain, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## creates .venv with everything to work on claimq (locked; does nothing when nothing has changed)
	@scripts/setup dev

.PHONY: setup-runtime
setup-runtime:
	@scripts/setup runtime

.PHONY: demo
demo: setup-runtime ## runs the checksum example on this machine, on all files below DIR (default: Python's library); WEB=1: with the web page
	@$(BIN)/python examples/checksums/demo.py $(if $(WEB),--web) $(if $(DIR),"$(DIR)")

# The cluster tests wait for much of their time; the others run beside them and yield the processor to them.
.PHONY: test
test: setup lint ## runs all checks and all tests, as continuous integration does
	@echo "All tests: those on a real Kubernetes beside the others (some 15 minutes; the output of each part appears when it ends)."
	@$(MAKE) --no-print-directory --keep-going --jobs --output-sync=target mypy pyright test-cluster tiers PYTEST='nice -n 10 $(PYTEST)'

.PHONY: tiers
tiers: setup ## runs all tests that need no cluster
	@$(PYTEST)

.PHONY: check
check: setup lint types ## checks formatting, lint, types and import contracts (no tests)

.PHONY: lint
lint: setup
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/lint-imports --no-logo

.PHONY: types mypy pyright
types: mypy pyright
# Its cache lies outside the checkout, for every checkout of this user; it compares the sources' hashes.
mypy: setup
	$(BIN)/mypy --cache-dir "$${XDG_CACHE_HOME:-$$HOME/.cache}/claimq/mypy"
pyright: setup
	$(BIN)/pyright --warnings

.PHONY: fmt
fmt: setup ## formats the code, wraps Markdown, writes the reference pages, and applies automatic fixes
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/python scripts/wrap_markdown.py
	PYTHONPATH=scripts $(BIN)/python scripts/make_reference.py

.PHONY: $(TIERS)
arch: setup ## tests the rules of the repository
	$(PYTEST) tests/$@
unit: setup ## tests that need no server
	$(PYTEST) tests/$@
chart: setup ## tests the chart as helm renders it
	$(PYTEST) tests/$@
contract: setup ## tests every transition on real servers
	$(PYTEST) tests/$@
integration: setup ## tests the components together: races, kills, Redis Cluster, Sentinel
	$(PYTEST) tests/$@
property: setup ## compares random operations with a plain model
	$(PYTEST) tests/$@
kill: setup ## kills processes at random points and accounts for every item
	$(PYTEST) tests/$@

# One run for each server, so that a server that is missing or fails hides none of the others.
SERVERS ?= redis7 redis82 redis8 valkey8 valkey
.PHONY: test-servers
test-servers: setup ## runs the contract and integration tests on each server that claimq supports; SERVERS="redis8 valkey8" chooses
	@status=0; for server in $(SERVERS); do echo "== $$server"; \
	  $(PYTEST) --servers $$server tests/contract tests/integration || status=1; done; exit $$status

.PHONY: stalls
stalls: setup ## pauses tests at random points and so finds those that depend on speed; ARGS="tests/contract -k reap"
	@$(BIN)/pytest -n 12 -p testkit.stalls $(ARGS)

.PHONY: mutants
mutants: setup ## changes one token of a pure module at a time and prints the changes that its tests miss; SAMPLE=90, SEED=0, ONLY=PATH
	@$(BIN)/python scripts/mutants.py --jobs $(JOBS) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

.PHONY: size
size: setup ## counts syntax nodes and Lua tokens by folder at HEAD; AGAINST=COMMIT shows the ratio to a commit
	@$(BIN)/python scripts/measure_size.py $(AGAINST)

.PHONY: bench
bench: setup-runtime ## runs the benchmarks; JSON=FILE also writes the figures, QUICK=1 takes under a minute
	@PYTHONPATH=tests/support $(BIN)/python bench/run.py $(if $(JSON),--json "$(JSON)") $(if $(QUICK),--quick)

.PHONY: bench-blocking
bench-blocking: setup-runtime ## measures how long each operation blocks the server on a worst-case queue; QUICK=1 uses a smaller one
	@PYTHONPATH=tests/support $(BIN)/python bench/run.py --only blocking $(if $(JSON),--json "$(JSON)") $(if $(QUICK),--quick)

.PHONY: faults
faults: setup ## prints what each fault of a server or process does to items, by id; QUICK=1 runs a few rows, ONLY="valkey cluster" those with these words
	@nice $(BIN)/python bench/run_faults.py $(if $(QUICK),--quick) $(ONLY)

.PHONY: scaling-study
scaling-study: setup-runtime ## compares the scaling rule with other autoscalers in simulations; JSON=FILE, QUICK=1 (two minutes), DOCS=FILE writes the tables, BASELINES=1 computes the other autoscalers again
	@$(BIN)/python bench/run_scaling_study.py $(if $(JSON),--json "$(JSON)") $(if $(QUICK),--quick) \
	  $(if $(DOCS),--docs "$(DOCS)") $(if $(BASELINES),--baselines)

.PHONY: simulate
simulate: setup-runtime ## simulates one queue, its workers and its autoscaler; ARGS="--shape batch --service 2s", ARGS=--help lists the options
	@$(BIN)/python bench/simulate.py $(ARGS)

.PHONY: record
record: setup-runtime ## prints the arrivals of a queue as a trace for `make simulate`; ARGS="NAME --seconds 3600", the server is $$CLAIMQ_REDIS_URL
	@$(BIN)/python bench/record.py $(ARGS)

.PHONY: lock
lock: setup ## locks the newest allowed requirements by hash
	cd requirements && for name in build runtime operator sidecar web dev; do \
	  ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    $$(test $$name = operator -o $$name = sidecar && echo -c runtime.txt) \
	    $$(test $$name = web && echo -c runtime.txt -c operator.txt) \
	    $$(test $$name = dev && echo -c build.txt -c runtime.txt -c operator.txt) -o $$name.txt $$name.in || exit 1; \
	done

.PHONY: pictures
pictures: setup ## takes the pictures of the documentation again
	CLAIMQ_SCREENSHOTS=1 $(BIN)/pytest -n 0 tests/integration/web/test_pictures.py $(ARGS)

.PHONY: clean
clean: ## removes generated files (.venv, caches, logs)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis test-logs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Targets on a real Kubernetes cluster (cluster-up, cluster-down, cluster-shell, test-cluster).
include tests/cluster/cluster.mk
