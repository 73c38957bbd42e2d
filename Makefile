# On a machine that has only Python (3.11 or newer) and make: `make demo`, `make test`, `make docs`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo docs test test-slow lint clean

demo: .venv/.installed
	$(BIN)/fedglb reproduce synthetic

docs: .venv/.installed-docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site . build/docs

test: lint
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: .venv/.installed-test
	$(BIN)/pytest -n 2 -m slow

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
