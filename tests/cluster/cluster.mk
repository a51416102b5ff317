# A real Kubernetes on this machine (as root on Linux), or the existing cluster that KUBE_CONTEXT names.
# Included by the Makefile at the root.

# How many nodes cluster-up makes: 1 to 3.
NODES ?= 1
# Any Python from 3.11 on runs the harness: it needs nothing but the standard library.
CLUSTER_PYTHON ?= $(firstword $(wildcard .venv/bin/python) python3)
CLUSTERKIT = PYTHONPATH=tests/cluster/harness $(CLUSTER_PYTHON) -m clusterkit

.PHONY: cluster-up
cluster-up: ## a real Kubernetes on this machine (root, Linux); NODES=2 or 3 for more nodes
	@$(CLUSTERKIT) up --nodes $(NODES)

.PHONY: cluster-down
cluster-down: ## takes it down completely, also the remains of one that crashed
	@$(CLUSTERKIT) down --all

.PHONY: cluster-status
cluster-status: ## what runs in it
	@$(CLUSTERKIT) status

.PHONY: cluster-shell
cluster-shell: ## a shell in which kubectl and helm work on it
	@$(CLUSTERKIT) shell

.PHONY: cluster-demo
cluster-demo: setup ## the main job on it: the chart, the checksum example, a pod killed, every checksum proved
	@PYTHONPATH=tests/cluster/harness:tests/support $(BIN)/python examples/checksums/cluster_demo.py

.PHONY: test-cluster
test-cluster: setup ## tests on a real Kubernetes, which they bring up and take down
	$(BIN)/pytest -n 0 $(ARGS) tests/cluster
