# Every target sets up what it needs: a bare checkout, Python 3.11+ and the package registry are enough.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test torture check format bench clean

demo: .venv/installed
	$(BIN)/dpadmm demo

test: .venv/installed-dev
	$(BIN)/pytest

# The long versions: 300 kills, 200 races, 10,000 malformed requests.
torture: .venv/installed-dev
	DPADMM_TORTURE=1 $(BIN)/pytest tests/owner

check: .venv/installed-dev
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

bench: .venv/installed-dev
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/boundary.py

.venv/installed: pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a few minutes)..."
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
