# Every target sets up what it needs in .venv; a machine with Python 3.11 or newer and make is enough.
#   make demo    the whole product for a few seconds on parts of its own
#   make test    all tests; `make test TESTS=tests/unit` some of them
#   make lint    ruff and mypy
#   make bench   all benchmarks and one report, 15 minutes; `make bench-long` the slow ones, an hour
#   make venv    only the set-up
#   make lock    renew requirements.txt

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3.14 python3 python; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
TESTS := $(wildcard tests/unit tests/fuzz tests/integration tests/system tests/terraform)
CHECKED := $(wildcard loader bridge bench tests examples startup terraform)

.PHONY: venv demo test lint bench bench-long lock format

venv: $(STAMP)

$(STAMP): pyproject.toml
ifeq ($(strip $(PYTHON)),)
	@echo "make: no Python 3.11 or newer with venv found on PATH: install one" \
		"(Debian and Ubuntu: apt install python3 python3-venv; macOS: brew install python)" >&2; exit 1
endif
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bridge,local,dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/loader demo $(ARGS)

test: $(STAMP)
	@$(BIN)/python -m pytest $(ARGS) $(TESTS)

lint: $(STAMP)
	@$(BIN)/ruff check $(CHECKED)
	@$(BIN)/ruff format --check $(CHECKED)
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff check --fix $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

# One report of all; `make bench ARGS='--write README.md'` keeps the records and renews the README's page from them.
bench: $(STAMP)
	@$(BIN)/loader bench all $(ARGS)

bench-long: $(STAMP)
	@$(BIN)/loader bench all --long $(ARGS)

# For every Python and platform at once; hashes, and no index: the lock must hold wherever packages come from.
lock: $(STAMP)
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command 'make lock' --extra bridge --output-file requirements.txt pyproject.toml
