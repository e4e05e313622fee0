# Everything a developer or a CI needs. Each target sets up what it uses; nothing has to be done first.
#   make demo      a topical crawl of a web served on this machine, and what it found (makes .venv)
#   make quick     unit and engine tests, in less than 90 s: run it after every change
#   make test      everything: what the tests need, the checks, coverage, all tests
#   make check     ruff, mypy, import-linter, deptry, vulture, sizes, docs (a part of `make test`)
#   make coverage  the quick tests with branch coverage, against the floors in pyproject.toml
#   make fuzz      hostile input for every reader: 10,000 inputs each (make fuzz INPUTS=1000000)
#   make simulate  1,000 crawls with simulated faults of network, processes and disk (make simulate SEEDS=50000)
#   make docs      the documentation as a site in site/
#   make install   only .venv, with the command .venv/bin/opilio and all optional features

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEARXNG := .searxng
PYWB := .pywb
HTML5LIB := .html5lib
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := lab,learn,parquet,lemmas,opinions,mcp,postgres,objects,documents,browser,signatures,selectolax
TEST_EXTRAS := $(EXTRAS),docs,test
# On two cores; `make test JOBS=8` on a larger machine.
JOBS ?= 2
STATED := pyproject.toml constraints.txt
# Tests with one of these marks are left out of `make quick`; see tests/checks/marking.py.
QUICK := not (browser or process or kill or install or system or slow)
PARALLEL := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart=0
PYTEST := $(PARALLEL) --ignore=tests/docs --ignore=tests/project
SEARXNG_STATED := tests/seeds/searxng/needs.txt tests/seeds/searxng/server.txt

export PYTHONDONTWRITEBYTECODE := 1
.DEFAULT_GOAL := help
.PHONY: help install install-test demo quick check lint check-files coverage fuzz simulate docs servers test clean

help:
	@sed -n 's/^#   //p' Makefile

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test

$(BIN)/python:
	@sh scripts/make_venv.sh "$(PYTHON)" "$(VENV)"

# The editable install follows the source by itself: only a changed requirement installs again.
$(VENV)/.installed-demo: $(STATED) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.installed: $(STATED) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-test: $(STATED) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[$(TEST_EXTRAS)]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-demo

# The demo needs no optional feature: numeric and plotting libraries are most of what there is to download.
demo: $(VENV)/.installed-demo
	@$(BIN)/opilio lab demo

quick: install-test
	$(PYTEST) --hypothesis-profile quick -m "$(QUICK)"

check: lint check-files

lint: install-test
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry src
	$(BIN)/python scripts/check_unused.py

check-files: install-test
	$(PARALLEL) tests/project tests/docs

coverage: install-test
	$(PYTEST) -m "$(QUICK)" --cov --cov-report=
	$(BIN)/python scripts/check_coverage.py

# New inputs each time; a failure prints the input that caused it and the seed.
INPUTS ?= 10000
fuzz: install-test
	FUZZ_INPUTS=$(INPUTS) FUZZ_SEED=$$(date +%s) $(PARALLEL) -o faulthandler_timeout=0 tests/fuzz

# A failure prints the command that runs its seed again.
SEEDS ?= 1000
FIRST ?= 0
simulate: install-test
	$(BIN)/python -m benchmarks.simulation.run --first $(FIRST) --seeds $(SEEDS)

# Material reminds of its successor at every build.
docs: install-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir site

# A real search server for the tests of seeds. Its requirements don't go together with ours.
$(SEARXNG)/.installed: $(SEARXNG_STATED)
	@sh scripts/make_venv.sh "$(PYTHON)" "$(SEARXNG)"
	$(SEARXNG)/bin/python -m pip --disable-pip-version-check install --quiet -r tests/seeds/searxng/needs.txt
	$(SEARXNG)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes \
		-r tests/seeds/searxng/server.txt
	@touch $@

# A player of web archives, for the tests of exports. Its requirements don't go together with ours either.
$(PYWB)/.installed: tests/manage/pywb_needs.txt
	@sh scripts/make_venv.sh "$(PYTHON)" "$(PYWB)"
	$(PYWB)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r $<
	@touch $@

# Trees that browsers build, for the tests of the parsers: only the source of html5lib has them. Its set-up needs an
# older setuptools; recent versions of pip have a setting of their own for that.
$(HTML5LIB)/trees: tests/parse/html5lib_build.txt | $(BIN)/python
	@rm -rf $(HTML5LIB) && mkdir $(HTML5LIB)
	@PIP_CONSTRAINT=$< PIP_BUILD_CONSTRAINT=$< $(PIP) download --quiet --no-deps --no-binary html5lib \
		--dest $(HTML5LIB) html5lib==1.1 && tar -xzf $(HTML5LIB)/html5lib-1.1.tar.gz -C $(HTML5LIB) && \
		mv $(HTML5LIB)/html5lib-1.1/html5lib/tests/testdata/tree-construction $@ || \
		echo "the source of html5lib can't be prepared: the tests of trees will be skipped" >&2

# What the tests need beside .venv: servers, a browser, trees, a thesaurus, manuals.
servers: $(SEARXNG)/.installed $(PYWB)/.installed $(HTML5LIB)/trees
	@sh scripts/get_package.sh chromium chromium "the tests of the pages in a browser"
	@sh scripts/get_package.sh initdb postgresql "the tests of collections in PostgreSQL"
	@sh scripts/get_package.sh /usr/share/wordnet wordnet-base "the test of the thesaurus"
	@for name in python3-doc git-doc sqlite3-doc postgresql-doc-15 valgrind; do \
		sh scripts/get_package.sh /usr/share/doc/$$name $$name "the tests with manuals"; done

# Packages are downloaded while the checks compute. The quick tests run once, under coverage; the others run without,
# because it slows them most, and in more processes than cores, because they wait for servers and browsers.
test:
	@$(MAKE) --no-print-directory -j 3 lint check-files servers
	@$(MAKE) --no-print-directory coverage
	OPILIO_SEARXNG=$(CURDIR)/$(SEARXNG)/bin/python OPILIO_PYWB=$(CURDIR)/$(PYWB)/bin/python \
		OPILIO_HTML5LIB=$(CURDIR)/$(HTML5LIB)/trees $(PYTEST) -n $$(($(JOBS) + 1)) -m "not ($(QUICK))"

clean:
	rm -rf $(VENV) $(SEARXNG) $(PYWB) $(HTML5LIB) demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		.coverage
