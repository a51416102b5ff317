# A real Kubernetes on this machine (as root on Linux), or the existing cluster that KUBE_CONTEXT names.
# Included by the Makefile at the root.

# How many nodes cluster-up makes: 1 to 3.
NODES ?= 1
# Any Python from 3.11 on runs the harness: it needs nothing but the standard library.
CLUSTER_PYTHON ?= $(firstword $(wildcard .venv/bin/python) python3)
CLUSTERKIT = PYTHONPATH=tests/cluster/harness/src $(CLUSTER_PYTHON) -m clusterkit

.PHONY: cluster-up
cluster-up: ## starts a real Kubernetes on this machine (root, Linux); NODES=2 or 3 for more nodes
	@$(CLUSTERKIT) up --nodes $(NODES)

.PHONY: cluster-down
cluster-down: ## stops and removes it, also the remains of one that crashed
	@$(CLUSTERKIT) down --all

.PHONY: cluster-status
cluster-status: ## shows what runs in it
	@$(CLUSTERKIT) status

.PHONY: cluster-shell
cluster-shell: ## opens a shell in which kubectl and helm work on it
	@$(CLUSTERKIT) shell

.PHONY: cluster-demo
cluster-demo: setup ## runs the checksum example on it with the chart, kills a pod, and compares every checksum
	@PYTHONPATH=tests/cluster/harness/src:tests/support $(BIN)/python examples/checksums/cluster_demo.py

# How many clusters the tests work on side by side. 0: one, in this process.
CLUSTER_JOBS ?= $(if $(KUBE_CONTEXT),0,3)

# Kubernetes, built once; if it fails, the tests report no cluster.
.PHONY: cluster-programs
cluster-programs: setup
	@test -n "$(KUBE_CONTEXT)" || $(CLUSTERKIT) build >/dev/null || true

.PHONY: test-cluster
test-cluster: cluster-programs ## runs the tests on a real Kubernetes, which they start and stop
	@$(BIN)/pytest -n $(CLUSTER_JOBS) --dist loadscope $(ARGS) tests/cluster
	@$(if $(ARGS),true,$(CLUSTERKIT) passed) # clusterkit's own tests need not run again until it changes

# KEDA, built once: some 5 minutes on 2 cores.
.PHONY: test-keda
test-keda: cluster-programs ## tests that KEDA and its HPA can scale a queue on it; builds KEDA
	@CLAIMQ_KEDA=1 $(BIN)/pytest $(ARGS) tests/cluster/lifecycle/test_keda.py

.PHONY: bench-cluster
bench-cluster: setup ## runs the benchmarks on it; JSON=FILE also writes the figures, QUICK=1 takes half as long, SCALING=1 compares with KEDA
	@$(BIN)/python bench/run_cluster.py $(if $(JSON),--json "$(JSON)") $(if $(QUICK),--quick) $(if $(SCALING),--scaling) $(if $(PLOT),--plot "$(PLOT)")
