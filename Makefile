# Every target sets up what it needs: a bare checkout, Python 3.11+ and the package registry are enough.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := src tests benchmarks demos docs/hooks.py docs/pictures tools

.PHONY: demo test test-fast torture federation-demo federation-test check format generate bench reproduce audit docs docs-serve clean

demo: .venv/installed
	$(BIN)/dpadmm demo

# Files are started in the order of tests/conftest.py, the long ones first.
test: .venv/installed-dev
	$(BIN)/pytest -n logical --dist loadfile --no-loadscope-reorder

# The tests without a marker, in under two minutes: what a change is most likely to break.
test-fast: .venv/installed-dev
	$(BIN)/pytest -n logical --dist loadfile -m "not statistical and not processes and not external and not figures and not documents and not runs"

# The long tests, in parts: 10,000 kills, 1,000 races, 100,000 malformed frames and requests, an hour of ten owners on a
# slow and lossy network. Each call works for so many minutes, and goes on where the one before has stopped.
MINUTES ?= 30
torture: .venv/installed-dev
	$(BIN)/python tools/torture.py --minutes $(MINUTES)

# A coordinator and three owners as processes of their own, mutual TLS, PostgreSQL behind one of them.
federation-demo: .venv/installed-dev
	$(BIN)/python demos/federation.py

# The long tests of a federation: kills, thirty owners, a slow and lossy network.
federation-test: .venv/installed-dev
	DPADMM_FEDERATION=1 $(BIN)/pytest tests/federation/processes/test_long.py

check: .venv/installed-dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# What follows from declared fields: options of parts, keyword arguments of dpadmm.train, the reference page of options.
generate: .venv/installed-dev
	$(BIN)/python tools/generate.py

bench: .venv/installed-dev
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/release_path.py
	$(BIN)/python benchmarks/boundary.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/federated.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/out_of_core.py
	$(BIN)/python benchmarks/graphs.py
	$(BIN)/python benchmarks/functional.py
	$(BIN)/python benchmarks/federation.py
	$(BIN)/python benchmarks/auto_rule.py
	$(BIN)/python benchmarks/auto.py --only adult,speed
	$(PIP) cvxpy
	$(BIN)/python benchmarks/power_flow.py

# Every figure and table of the papers at a small scale; with SCALE=paper at the papers' own sizes, which takes hours.
SCALE ?= small
reproduce: .venv/installed-dev
	$(BIN)/dpadmm reproduce --scale $(SCALE)

# Every private recipe attacked with many transcripts; the table goes into docs/audit.md.
audit: .venv/installed-dev
	$(BIN)/dpadmm audit --algorithm all --epsilon 1,4 --delta 1e-5 --transcripts 50000 --seed 1 --write docs/audit.md

# The documentation site, into site/: open site/index.html. It needs no network, neither to build nor to read.
docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

.venv/installed: pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a few minutes)..."
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
