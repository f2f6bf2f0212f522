# Every target that needs the environment begins with `setup`, which does nothing when all is there.
# Try: make help

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest
# More arguments for pytest, for example: make test-fast ARGS='-k backoff -x'
ARGS ?=
# The figure of workers is not "auto": system tests and QEMU share the machine.
WORKERS ?= 2
SOAK_SECONDS ?= 600
SEEDS ?= 60
SIM_LOAD_SECONDS ?= 600
FUZZ_SECONDS ?= 3600

# The order of `test` is its meaning: cheap checks first, QEMU alone and last.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup format lint types test test-rest test-fast test-system explore build run \
	listing check mutate bench soak sim planted fuzz ci clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create .venv and install what is missing (no-op when nothing is)
	@$(PYTHON) pxe/bootstrap.py

format: setup ## Rewrite the code in the house format and mend what ruff can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lint: setup ## Check rules and format without changing anything
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup ## Check the types of everything, strictly
	$(BIN)/mypy

test: lint types test-rest check test-system ## Everything CI runs: lint, types, all tests, coverage

test-rest: setup ## The tests that need no QEMU node and that `check` does not run
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not system" --ignore=tests/firmware $(ARGS)

test-fast: setup ## All tests that need no QEMU node
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not system" $(ARGS)

explore: setup ## The fast tests with new random examples instead of the fixed ones
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not system" --hypothesis-profile=explore $(ARGS)

test-system: setup ## The tests that boot QEMU nodes, one after the other
	$(PYTEST) -m system $(ARGS)

build: setup ## Build the boot image, ELF, map and listing into build/
	$(BIN)/shardfw build

run: setup ## Boot a QEMU node over the network against a local gateway and watch its shards
	@$(BIN)/shardfw run

listing: setup ## Print the whole image as NASM source
	@$(BIN)/shardfw listing --all

check: setup ## Prove every routine against its model and print the coverage
	$(BIN)/shardfw check --coverage

mutate: setup ## Plant small faults in the lifecycle layers; each must be found
	$(BIN)/shardfw check --mutate

bench: setup ## Print the figures of README
	$(PYTEST) tests/benchmarks -m bench -q $(ARGS)

soak: setup ## Ten real minutes of load with loss (SOAK_SECONDS=600)
	SHARDFW_SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) tests/system -m soak -s $(ARGS)

sim: setup ## The simulation in virtual time: SEEDS=60 fault plans, SIM_LOAD_SECONDS=600 of load
	$(BIN)/shardfw sim --seeds $(SEEDS) --jobs $(WORKERS)
	$(BIN)/shardfw sim --fleet --seeds $(SEEDS) --jobs $(WORKERS)
	SHARDFW_SIM_LOAD_SECONDS=$(SIM_LOAD_SECONDS) \
		$(PYTEST) -n $(WORKERS) tests/emulator/simulation $(ARGS)

planted: setup ## Plant known bugs in a copy of the tree; the simulation must find each one
	$(BIN)/python -m emulator.simulation.planted --jobs $(WORKERS) $(ARGS)

fuzz: setup ## Fuzz the parsers of TLS, X.509 and NATS in the emulator (FUZZ_SECONDS=3600)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(ARGS)

ci: ## Exactly what CI runs
	.ci/run

clean: ## Remove what was built; .venv stays
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
