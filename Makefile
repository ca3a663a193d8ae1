# One command each; all of them work on a fresh clone. PYTHON picks the interpreter for the virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
EXTRAS := '.[postgres,timm,heif,grpc,demo,bench,dev]'

.PHONY: install demo test check fmt lint types unit long kills faults docs bench clean

install: $(STAMP)  ## .venv with everything to run and test

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable $(EXTRAS)
	touch $@

test: check  ## what CI runs: linters, types and all tests but the long ones

check: lint types unit

fmt: install
	$(BIN)/ruff check --fix-only --quiet . ; $(BIN)/ruff format .

lint: install
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

# Tests wait a lot, so there is one more job than cores; and start some thousand processes, which must not compile all modules anew.
JOBS ?= $(shell expr $$(nproc) + 1)
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder
unit: install
	$(PYTEST) -m "not long"

long: install  ## the tests that `make test` leaves out for their length: before a release, and after work on what they attack
	$(PYTEST) -m long

kills: install  ## sixty random SIGKILLs of the daemon, and ten with each adversarial method; `make test` has fewer
	ADAPTD_KILLS=60 $(BIN)/python -m pytest tests/process/test_kills.py tests/process/test_methods.py

FIGURES ?= faults.jsonl
# In sittings: a file alone, with ADAPTD_KEPT=FOLDER ADAPTD_SITTING=50 (test_kills), ADAPTD_CALLS=1-80 (calls of an episode,
# test_syscalls), ADAPTD_EXAMPLES=250 (test_machine), ADAPTD_ROUNDS=50 (test_signals) or ADAPTD_DOMAINS=500 (test_soak);
# all append to the same figures.
faults: install  ## the fault matrix of docs/reliability.md at full length; hours
	ADAPTD_FAULTS=$(abspath $(FIGURES)) ADAPTD_KILLS=200 ADAPTD_SWAPS=10000 ADAPTD_LOOSE=100000 \
		ADAPTD_JUNK=20000 ADAPTD_STARTS=50 $(BIN)/python -m pytest tests/faults tests/process/test_kills.py tests/process/test_loose_files.py \
		tests/project/test_lock.py \
		tests/imports/test_much_junk.py

docs: install  ## the pages that are made from the code
	$(BIN)/python -m adaptd.project.toml > adaptd.toml
	$(BIN)/python -m adaptd.cli.configuration > docs/configuration.md
	$(BIN)/python -m adaptd.cli.reference > docs/cli.md

bench: install
	$(BIN)/python -m benchmarks.status_time && $(BIN)/python -m benchmarks.ingest && $(BIN)/python -m benchmarks.step_cost

demo: install
	$(BIN)/adaptd demo

clean:
	rm -rf $(VENV) build dist
