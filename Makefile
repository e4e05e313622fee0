# Everything a person or a CI needs. Each target sets up what it uses; nothing has to be done first.
#   make demo      a topical crawl of a web we serve ourselves, and what it found      (.venv is made on the way)
#   make test      everything the tests need, the checks, all tests
#   make install   only .venv, with the command .venv/bin/opilio
#   make check     ruff, mypy, import-linter, sizes, docs (a part of `make test`)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := lab,learn,parquet
TEST_EXTRAS := $(EXTRAS),lemmas,test
# On two cores; `make test JOBS=8` on a larger machine.
JOBS ?= 2
STATED := pyproject.toml constraints.txt

export PYTHONDONTWRITEBYTECODE := 1
.DEFAULT_GOAL := help
.PHONY: help install install-test demo check test clean

help:
	@sed -n 's/^#   //p' Makefile

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test

$(BIN)/python:
	@sh scripts/make_venv.sh "$(PYTHON)" "$(VENV)"

# The editable install follows the source by itself: only a changed requirement installs again.
$(VENV)/.installed: $(STATED) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.installed-test: $(STATED) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[$(TEST_EXTRAS)]'
	@touch $@ $(VENV)/.installed

demo: install
	@$(BIN)/opilio demo

check: install-test
	$(BIN)/ruff check --quiet src tests benchmarks scripts
	$(BIN)/ruff format --quiet --check src tests benchmarks scripts
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/project tests/docs

test: check
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --ignore=tests/project --ignore=tests/docs

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
