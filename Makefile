# On a machine that has only Python (3.11 or newer) and make: `make demo`, `make test`, `make docs`.
PYTHON ?= python3
BIN := .venv/bin

# Tests start hundreds of processes, and wait for them: modules are compiled once, and there are more
# workers than cores. Neighbours stay on one worker, so that what a module's tests share is made once.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/pytest -n 3 --dist loadfile

.PHONY: demo docs test test-slow test-all lint clean

demo: .venv/.installed
	$(BIN)/fedglb reproduce synthetic

docs: .venv/.installed-docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site . build/docs

test: lint
	$(PYTEST) -m "not slow"

test-slow: .venv/.installed-test
	$(PYTEST) -m slow

test-all: lint
	$(PYTEST)

lint: .venv/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/.installed-test: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
