# Everything from a bare checkout: `make demo` and `make test` set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check bench validate docs clean

demo: $(READY)            ## measure what happens when three small models share this machine
	@# 2 means "measured, but this machine was too busy to trust it", which the text says; it is no failure of the demo.
	$(BIN)/cotenant run quick || [ $$? -eq 2 ]

test: check               ## the checks, then every test: those that measure real time have the machine to themselves
	$(BIN)/pytest -n 2 --dist loadfile -m "not quiet"
	$(BIN)/pytest -m quiet

check: $(READY)           ## style, types, layers
	$(BIN)/ruff check src tests benchmarks validation docs
	$(BIN)/ruff format --check src tests benchmarks validation docs
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)           ## speed and memory, as ratios from one run; writes docs/performance.md
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python benchmarks/run_all.py

validate: $(READY)        ## simulated beside measured (DATA=folder); writes docs/validation.md and the errors
	$(BIN)/python -m validation --data "$(DATA)" --write docs/validation.md \
	  --errors src/cotenant/devices/simulated/validated.json

docs: $(READY)            ## write the reference pages from the code
	$(BIN)/python docs/generate.py

# torch goes first and alone: resolved together with what depends on it, pip may pick a CUDA build.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
