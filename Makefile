# The two commands: `make run` sets everything up and does the main job on real pages; `make test` proves the house.
# Everything that they make stays in the git-ignored .venv/ and var/; `make clean` takes it away again.

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
BROKER := var/broker

# The first Python that is new enough and can make a virtual environment (Debian's own lacks ensurepip at first).
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$candidate && break; done)
JOBS ?= 2

.PHONY: help run test lint bench bench-kafka bench-scale soak soak-kafka fuzz broker picture clean

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
	@echo "installing the peers to measure against into $(VENV)/ ..." >&2
	@$(BIN)/python -m pip install -q --group bench
	@touch $@

$(BROKER)/libs/.complete: docker/broker/pom.xml docker/broker/broker.sh
	@docker/broker/broker.sh fetch $(BROKER)

## make run          set up, then sweeps of a real site in; clusters, moved pages and a redirect map out
run: $(STAMPS)/run
	@$(BIN)/lostfound demo

## make test         lint, types and the whole suite but the long targets, a real Kafka broker included
test: lint $(BROKER)/libs/.complete
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not long"

## make lint         ruff and mypy only
lint: $(STAMPS)/test
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy

## make bench        side by side with datasketch, rensa and gaoya: minutes
bench: $(STAMPS)/bench
	@$(BIN)/python -m bench

## make bench-kafka  workers on a real broker beside the embedded engine: ten minutes
bench-kafka: $(STAMPS)/bench $(BROKER)/libs/.complete
	@$(BIN)/python -m bench.kafka

## make bench-scale  grown to 5 million documents, with a plot: hours
bench-scale: $(STAMPS)/bench
	@$(BIN)/python -m bench.scale

## make soak         100 kills during ingest, 1,000 simulated interleavings
soak: $(STAMPS)/test
	@$(BIN)/python -m pytest -q -n $(JOBS) -m long --timeout 0

## make soak-kafka   SOAK_MINUTES (60) of chaos on a real broker, with a plot in bench/out
soak-kafka: $(STAMPS)/bench $(BROKER)/libs/.complete
	@$(BIN)/python -m tests.broker.soak

## make fuzz         readers and codecs fed with rubbish until FUZZ_SECONDS (300) are over
fuzz: $(STAMPS)/test
	@$(BIN)/python -m tests.fuzz --seconds $${FUZZ_SECONDS:-300}

## make broker       a Kafka broker on BROKER_PORT (9092), without Docker, until Ctrl-C
broker: $(BROKER)/libs/.complete
	@exec docker/broker/broker.sh run $(BROKER) $(BROKER)/data $${BROKER_PORT:-9092}

## make picture      docs/demo.svg, from what `make run` prints
picture: $(STAMPS)/run
	@FORCE_COLOR=1 COLUMNS=100 $(BIN)/lostfound demo | sed '/Ask on/,$$d' | $(BIN)/python -m tests.docs.picture >docs/demo.svg

## make clean        takes away what these made, but for your state in var/
clean:
	@rm -rf $(VENV) $(BROKER) var/demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build bench/out
	@find . -name __pycache__ -prune -exec rm -rf {} +
