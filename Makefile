# `make run` sets everything up and processes real pages; `make test` checks the project. Both write only to .venv/ and
# var/, which git ignores; `make clean` deletes the files.

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
BROKER := var/broker

# The first Python that is new enough and can create a virtual environment (Debian's needs the package python3-venv).
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$candidate && break; done)
# Two processes more than two cores: tests with a broker mostly wait.
JOBS ?= 4
# Standard input is never a terminal, however make was started.
PYTEST = $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal </dev/null
# If flock exists, a second make in the same checkout waits until the first one has installed everything.
LOCK := mkdir -p var && $(if $(shell command -v flock),flock var/.make.lock)

.PHONY: help run test test-data test-spark test-setup lint bench bench-kafka bench-scale soak soak-kafka fuzz broker picture clean compiled

help:
	@sed -n 's/^## //p' Makefile

$(STAMPS)/venv:
	@if [ -z "$(PYTHON)" ]; then \
	    echo "lostfound needs Python 3.11 or newer with venv (on Debian: apt-get install python3-venv)" >&2; exit 1; fi
	@if [ ! -x $(BIN)/python ]; then $(PYTHON) -m venv $(VENV); fi
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(STAMPS)/venv pyproject.toml
	@echo "installing lostfound into $(VENV)/ ..." >&2
	@$(BIN)/python -m pip install -q -e .
	@touch $@

$(STAMPS)/test: $(STAMPS)/venv pyproject.toml
	@echo "installing lostfound and its test tools into $(VENV)/ ..." >&2
	@$(BIN)/python -m pip install -q -e '.[kafka]' --group test
	@touch $@ $(STAMPS)/run

$(STAMPS)/bench: $(STAMPS)/test pyproject.toml
	@echo "installing the libraries to compare with into $(VENV)/ ..." >&2
	@$(BIN)/python -m pip install -q --group bench
	@touch $@

$(BROKER)/libs/.complete: docker/broker/pom.xml docker/broker/broker.sh
	@docker/broker/broker.sh fetch $(BROKER)

test-setup:
	@$(LOCK) $(MAKE) $(STAMPS)/test $(BROKER)/libs/.complete

## make run          set up, ingest sweeps of a real site, print clusters, moved pages and a redirect map
run: $(STAMPS)/run
	@$(BIN)/lostfound demo

## make test         lint, types and all tests except the long ones; starts a real Kafka broker
test: test-setup
	@$(LOCK) $(MAKE) -j 2 lint compiled
	@$(PYTEST) -m "not long"

## make test-data    only the tests on real crawls; needs LOSTFOUND_SHARED or ../shared
test-data: test-setup
	@$(PYTEST) -m "real_data and not long"

## make lint         ruff and mypy only
lint: $(STAMPS)/test
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy

# Numba's cache, which each test process would otherwise fill with the same functions in half a minute.
compiled: $(STAMPS)/test
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; export LOSTFOUND_DATA_DIR="$$folder"; \
	unset LOSTFOUND_CONFIG; $(BIN)/lostfound demo --sample >/dev/null; \
	$(BIN)/lostfound --data-dir "$$folder/demo/sample" export "$$folder/export" >/dev/null

## make bench        comparison with datasketch, rensa and gaoya: minutes
bench: $(STAMPS)/bench
	@$(BIN)/python -m bench

## make bench-kafka  workers on a real broker, compared with the embedded engine: ten minutes
bench-kafka: $(STAMPS)/bench $(BROKER)/libs/.complete
	@$(BIN)/python -m bench.kafka

## make bench-scale  growth to 5 million documents, with a plot: hours
bench-scale: $(STAMPS)/bench
	@$(BIN)/python -m bench.scale

## make test-spark   the analyses on Spark, compared with DuckDB; needs Java 17
test-spark: $(STAMPS)/test
	@$(BIN)/python -m pip install -q -e '.[spark]'
	@$(BIN)/python -m pytest -q tests/streams/analyses/test_spark.py tests/docs/test_spark_example.py

## make soak         200 kills during ingest, forget and cancel, 1,000 simulated interleavings, and the analyses of 200 more
soak: test-setup
	@$(PYTEST) -m long --timeout 0

## make soak-kafka   SOAK_MINUTES (60) of chaos on a real broker, with a plot in bench/out
soak-kafka: $(STAMPS)/bench $(BROKER)/libs/.complete
	@$(BIN)/python -m tests.broker.soak

## make fuzz         random input for the readers and codecs, for FUZZ_SECONDS (300)
fuzz: $(STAMPS)/test
	@$(BIN)/python -m tests.fuzz --seconds $${FUZZ_SECONDS:-300}

## make broker       a Kafka broker on BROKER_PORT (9092), without Docker, until Ctrl-C
broker: $(BROKER)/libs/.complete
	@exec docker/broker/broker.sh run $(BROKER) $(BROKER)/data $${BROKER_PORT:-9092}

## make picture      docs/demo.svg from the output of a first run: no compiled kernel, no state, pages not downloaded
picture: $(STAMPS)/run
	@set -e -o pipefail; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; program=$$PWD/$(BIN)/lostfound; \
	(cd "$$folder" && env -u LOSTFOUND_DATA_DIR -u LOSTFOUND_CONFIG NUMBA_CACHE_DIR="$$folder/numba" \
	    FORCE_COLOR=1 COLUMNS=100 "$$program" demo) >"$$folder/output"; \
	sed '/Try next/,$$d' "$$folder/output" | $(BIN)/python -m tests.docs.picture >docs/demo.svg

## make clean        delete what these targets made, except your state in var/
clean:
	@rm -rf $(VENV) $(BROKER) var/.make.lock var/demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build bench/out
	@find . -name __pycache__ -prune -exec rm -rf {} +
