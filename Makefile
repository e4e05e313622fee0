# Everything a person or a CI needs. Each target sets up what it uses; nothing has to be done first.
#   make demo      a topical crawl of a web we serve ourselves, and what it found      (.venv is made on the way)
#   make test      everything the tests need, the checks, all tests
#   make install   only .venv, with the command .venv/bin/opilio
#   make check     ruff, mypy, import-linter, sizes, docs (a part of `make test`)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEARXNG := .searxng
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := lab,learn,parquet
TEST_EXTRAS := $(EXTRAS),lemmas,test
# On two cores; `make test JOBS=8` on a larger machine.
JOBS ?= 2
STATED := pyproject.toml constraints.txt
SEARXNG_STATED := tests/seeds/searxng/needs.txt tests/seeds/searxng/server.txt

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

# A real search server for the tests of seeds. Its requirements don't go together with ours.
$(SEARXNG)/.installed: $(SEARXNG_STATED)
	@sh scripts/make_venv.sh "$(PYTHON)" "$(SEARXNG)"
	$(SEARXNG)/bin/python -m pip --disable-pip-version-check install --quiet -r tests/seeds/searxng/needs.txt
	$(SEARXNG)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes \
		-r tests/seeds/searxng/server.txt
	@touch $@

test: check $(SEARXNG)/.installed
	@sh scripts/get_chromium.sh
	OPILIO_SEARXNG=$(CURDIR)/$(SEARXNG)/bin/python $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart=0 --ignore=tests/project --ignore=tests/docs

clean:
	rm -rf $(VENV) $(SEARXNG) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
