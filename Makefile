# Two commands matter: `make demo` and `make test`. Everything they need, they install.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTS_PATH := PYTHONPATH=tests
# Most of a test's time is waiting, and the e2e ring needs one process from its first test to its
# last: the others do the rest meanwhile. 0 runs everything in one process. See tests/lanes.py.
PROCESSES ?= 3

.PHONY: help demo test lint types imports unit agents integration e2e ui web images locks crds manifests bench clean

help: ## say what each target does
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 14

$(STAMP): pyproject.toml
	@echo "==> virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[operator,agentctl,gateway,tracing,upstream,cli,conformance]' --group dev
	@touch $(STAMP)

demo: $(STAMP) ## play the main job before your eyes (RUNTIME=pod, AGENT=opencode|claude|codex|gemini, CI=1 to stop by itself)
	@$(TESTS_PATH) $(BIN)/python -m demo

test: $(STAMP) ## lint, types, import contracts and every ring of tests
	@$(MAKE) --no-print-directory lint types imports
	$(BIN)/python -m pytest -n $(PROCESSES) $(PYTEST_ARGS)

lint: $(STAMP) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

imports: $(STAMP) ## the house's arrows
	$(BIN)/lint-imports

unit: $(STAMP) ## only the tests that need no process and no network
	$(BIN)/python -m pytest -m unit tests/unit

agents: $(STAMP) ## every real agent we know, offline; the first run brings them from npm
	KANDEV_TEST_AGENTS=all $(BIN)/python -m pytest tests/integration/agentctl/test_real_agents.py

integration: $(STAMP) ## a real API server, real processes, real agents
	$(BIN)/python -m pytest -m integration tests/integration

e2e: $(STAMP) ## a real node, real pods; as root on Debian or Ubuntu
	$(BIN)/python -m pytest -m e2e tests/e2e

ui: $(STAMP) ## Chromium on the page and the running product
	$(BIN)/python -m pytest -m ui tests/ui

web: $(STAMP) ## compile the page from its sources; from the cache where it was compiled before
	@$(BIN)/python operator/kandev_operator/gateway/web/build.py

images: $(STAMP) ## the images of operator, agentctl and gateway, and agentctl's folder in build/agentctl; as root
	@$(TESTS_PATH) $(BIN)/python -m cluster.images.product
	@$(TESTS_PATH) $(BIN)/python -m cluster.images.gateway

LOCK := $(BIN)/uv pip compile --quiet pyproject.toml --python-version 3.11 \
	--python-platform x86_64-manylinux_2_31 --generate-hashes --no-header --no-annotate

locks: $(STAMP) ## renew operator/images/*.lock after a change of dependencies
	$(LOCK) --extra agentctl --group freeze -o operator/images/agentctl.lock
	$(LOCK) --extra operator -o operator/images/operator.lock
	$(LOCK) --extra gateway -o operator/images/gateway.lock

crds: $(STAMP) ## generate crds/ from the models, and copy them into the chart
	$(BIN)/python -m kandev_operator.api.crd --write crds
	rm -f helm/kandev-operator/files/crds/*.yaml
	cp crds/*.yaml helm/kandev-operator/files/crds/

manifests: crds ## generate manifests/ for kustomize from the chart
	@$(TESTS_PATH) $(BIN)/python -m cluster.manifests

bench: $(STAMP) ## measure; results in build/benchmarks
	@$(TESTS_PATH) $(BIN)/python -m benchmarks

clean: ## remove what was built here; the user's cache stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
