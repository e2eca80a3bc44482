# Every target builds the virtual environment it needs; nothing is installed outside of it, but for the JDK and Maven
# that `make test` takes from the system's packages where it may (the JDBC tests are skipped without them).
# Variables: VENV=.venv  PYTHON=python3.12  ONCE=1 (demo)  DATA=demo-data (demo)  SIZE=5000000 (bench)
#            ARGS="-k name" (test)  WORKERS=auto (test, mutants: processes, one per core)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV ?= .venv
BIN := $(VENV)/bin
# What is imported is compiled then: to compile all of it takes a third of the time.
PIP := PYTHONUNBUFFERED=1 $(BIN)/python -m pip --disable-pip-version-check install --no-compile --progress-bar off
# Names each package as pip comes to it.
SHOW_PACKAGES := awk '/^ *Collecting / { sub(/[^A-Za-z0-9_.-].*/, "", $$2); printf "%s ", $$2; fflush() } END { print "" }'
DATA ?= demo-data
ONCE ?=
SIZE ?=
ARGS ?=
WORKERS ?= auto

# The first interpreter on PATH that is new enough. A name that exists need not run (version managers leave shims).
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$name && break; done)

# Compiled modules and rewritten tests are kept, whatever the environment says: each worker of the tests, each server
# that they start and the next run would have to compile them again.
export PYTHONDONTWRITEBYTECODE :=

SOURCES := benchmarks docs/site examples execnodes gateway integrations lance_gateway memwal pipeline planner protos sqlalchemy_lance_gateway tests

.PHONY: help demo test test-fast jdbc-drivers dbt-environment superset-environment soak mutants bench lint format docs console protos lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1	\2/' | expand -t 20

demo: $(VENV)/.installed ## Ask a table questions while it is written (ONCE=1 ends by itself)
	@$(BIN)/python examples/demo.py --root $(DATA) $(if $(filter-out 0,$(ONCE)),--once)

test: $(VENV)/.installed-dev ## Check everything and run every test but the soak (ARGS="-k name")
	@status=0; $(MAKE) lint || status=$$?; $(MAKE) jdbc-drivers || true; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak" $(ARGS) || status=$$?; exit $$status

test-fast: $(VENV)/.installed-dev ## Run only the tests that take moments
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak and not slow" $(ARGS)

jdbc-drivers: $(VENV)/.installed-dev ## Fetch the JDBC drivers that are tested; install JDK and Maven where allowed
	@$(BIN)/python -m tests.jdbc.drivers

dbt-environment: $(VENV)/.installed-dev ## Install the dbt that is tested, in an environment of its own
	@$(BIN)/python -m tests.dbt.environment

superset-environment: $(VENV)/.installed-dev ## Install the Superset that is tested, in an environment of its own
	@$(BIN)/python -m tests.superset.environment

soak: $(VENV)/.installed-dev ## Run long random histories, and what needs dbt, Superset, other languages or older drivers
	@$(MAKE) dbt-environment || true; $(MAKE) superset-environment || true
	@$(BIN)/python -m pytest -m soak --timeout=0 $(ARGS)

mutants: $(VENV)/.installed-dev ## Change what decides about rows, and see that tests notice (ARGS="lance_gateway.planner.predicates.pruning*")
	@env -u PYTHONPATH $(BIN)/mutmut run $(if $(filter-out auto,$(WORKERS)),--max-children $(WORKERS)) $(ARGS)
	@env -u PYTHONPATH $(BIN)/mutmut results

bench: $(VENV)/.installed-dev ## Measure against the floor and Lance's own scanners (SIZE=base rows)
	@$(BIN)/python -m benchmarks $(if $(SIZE),--rows $(SIZE)) $(ARGS)

lint: $(VENV)/.installed-dev ## Check style, types, direction of imports, generated protobuf modules and links of the documentation
	@status=0; \
	$(BIN)/ruff check $(wildcard $(SOURCES)) || status=$$?; \
	$(BIN)/ruff format --check $(wildcard $(SOURCES)) || status=$$?; \
	$(BIN)/mypy || status=$$?; \
	$(BIN)/lint-imports || status=$$?; \
	$(BIN)/python -m lance_gateway.protos.generate --check || status=$$?; \
	$(MAKE) docs || status=$$?; \
	exit $$status

format: $(VENV)/.installed-dev ## Format the sources and repair what ruff can repair
	@$(BIN)/ruff check --fix $(wildcard $(SOURCES))
	@$(BIN)/ruff format $(wildcard $(SOURCES))

docs: $(VENV)/.installed-dev ## Make the documentation into a site (in site/); a link that leads nowhere fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build 2>&1 | { grep -v '^INFO' || true; }

console: ## Bundle the console's editor and charts anew (needs npm; versions are those of its package-lock.json)
	@cd gateway/observability/console/bundle && npm ci --ignore-scripts --no-audit --no-fund && npx esbuild \
		codemirror=editor.js uplot=charts.js --bundle --minify --format=esm --legal-comments=none --outdir=../static/lib \
		&& cp node_modules/uplot/dist/uPlot.min.css ../static/lib/uplot.css && rm -rf node_modules

protos: $(VENV)/.installed-dev ## Generate the protobuf modules from their .proto files
	@$(BIN)/python -m lance_gateway.protos.generate

lock: $(VENV)/.installed-dev ## Name the versions and hashes that the images are built of (docker/*.lock)
	@for image in "" spark-; do $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header $${image:+--extra spark} pyproject.toml \
		--output-file docker/$${image}requirements.lock; done

clean: ## Remove the virtual environment, caches and the demo's data
	rm -rf $(VENV) .jdbc-drivers .dbt-environment .superset-environment demo-data bench-data build dist site ./*.egg-info
	rm -rf mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "make: no Python 3.11 or newer found on PATH; name one with PYTHON=/path/to/python3" >&2; exit 1; fi
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { \
		echo "make: '$(PYTHON) -m venv' failed; on Debian and Ubuntu install python3-venv first" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing Lance Gateway into $(VENV) (takes a minute the first time)"
	@$(PIP) --editable . | $(SHOW_PACKAGES)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing Lance Gateway and its test and development tools into $(VENV) (takes a minute or two the first time)"
	@$(PIP) --editable '.[bench,test,dev]' | $(SHOW_PACKAGES)
	@touch $@ $(VENV)/.installed
