# Every target sets up what it needs; a second run finds it done.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: study test lint bench docs clean
.DELETE_ON_ERROR:

study: .venv/study.done
	$(BIN)/headwise study

test: lint .venv/test.done .venv-light/done .venv/browser.done
	$(BIN)/pytest --numprocesses 2
	.venv-light/bin/python -m pytest --noconftest tests/light

lint: .venv/test.done
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/test.done .venv/browser.done
	$(BIN)/python -m benchmarks

docs: .venv/test.done
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf .venv .venv-light docs/_build study-out

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: needs Python 3.11 or newer. Run: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv .venv || { echo "hint: on Debian, run: apt-get install python3-venv" >&2; exit 2; }
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"

.venv/study.done: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[study]"
	@touch $@

# torch comes first: with it in place, nothing that asks for torch takes another build of it.
.venv/test.done: .venv/study.done
	$(PIP) torch
	$(PIP) --editable ".[demo,inspect,lab,parquet,study]" --group test
	@touch $@

# The browser that pages are tried in.
.venv/browser.done: .venv/bin/python
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get -o DPkg::Lock::Timeout=300 install -y -qq chromium; } \
		>.venv/browser.log 2>&1 || { tail -n 5 .venv/browser.log >&2; \
		echo "error: the tests need the Debian package chromium. Run as root: apt-get install chromium" >&2; exit 2; }
	@touch $@

# The core install and pytest, nothing else: what works here works without any extra.
.venv-light/done: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-light
	.venv-light/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . pytest
	@touch $@
