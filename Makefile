# Everything from a bare checkout: `make demo` and `make test` set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TESTED := $(VENV)/.tested
DATA   ?= ../shared/data
PIP     = $(BIN)/pip install --quiet --no-compile --constraint constraints.txt
LOCKED  = $(BIN)/pip install --quiet --no-compile --require-hashes --no-deps --only-binary :all:
# Packages are compiled by all cores afterwards; some contain files for other Pythons, which can't be.
COMPILE = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
TORCH   = $(PIP) torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
# A minute of overload with clients that leave, beside the slow tests: its models sleep, so it takes little of the machine.
SOAK    = (cd benchmarks/serving && ../../$(BIN)/python soak.py --seconds 60 --empty --rough --load 1.5)
SKIPS   = $(if $(CI),--allowed-skips tests/allowed_skips.txt)
SLOWEST = $(if $(CI),--durations=20)
# A worker that a hanging test ended isn't replaced: pytest-xdist can wait for ever for one that took another's place.
SPREAD  = --dist loadfile --max-worker-restart 0
CLIENTS := .venv-clients
SUPPLY  := .venv-supply
SPOKEN  = $(if $(CI),COTENANT_CLIENTS=$(CURDIR)/$(CLIENTS)/bin/python)
# Lines that the fast tests reach: tracing would double the time of the slow ones.
COVER   = $(if $(CI),--cov=cotenant --cov-report=)
FLOOR   = 88

# Environments, the browser, types and the fast tests don't wait for each other.
MAKEFLAGS += --jobs=4
# Tests start hundreds of processes, each of which would compile the package again, so it is compiled once. None of them
# writes bytecode: one that runs under a limit of file sizes would leave a truncated file for all others to load.
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: demo test compiled fast slow quiet check style types layers browser bench soak validate docs docs-serve screenshots outputs outputs-check \
  prometheus reference wheel storm aa lock figures mutants changed-mutants sbom advisories clean

demo: $(READY)            ## measure how an encoder, a scan and a generator can share this machine
	@# 2 means "measured, but not precise enough to decide", which the text says; the demo has not failed.
	$(BIN)/cotenant run quick --report || [ $$? -eq 2 ]

test: quiet               ## the checks and the tests; with CI=true the slow ones too

# The simulator's loops become machine code at their first use, which takes each process that starts before it is
# kept seconds, and many more while lines are traced.
compiled: $(TESTED)
	$(BIN)/python -m compileall -q src
	@$(BIN)/cotenant run quick --device sim:t4 --set blocks=1 -q --out $(VENV)/compiled >/dev/null 2>&1 || true

# Half of their time tests wait for processes, so two cores keep more workers than two busy.
fast: style compiled $(if $(CI),$(CLIENTS)/.ready browser prometheus)
	$(SPOKEN) $(BIN)/pytest -n 3 $(SPREAD) -m "not quiet and not slow" $(SKIPS) $(COVER) $(SLOWEST)
	$(if $(CI),$(BIN)/coverage report --fail-under=$(FLOOR) --format=total)

slow: fast
	$(SOAK) & soak=$$!; $(SPOKEN) $(BIN)/pytest -n 4 $(SPREAD) --no-loadscope-reorder \
	  -m "slow and not quiet" $(SKIPS) $(SLOWEST); code=$$?; wait $$soak && exit $$code

# Nothing else may run beside them.
quiet: check $(if $(CI),slow,fast)
	$(BIN)/pytest -m quiet $(SKIPS)

check: style types layers ## style, types, layers

style: $(TESTED)
	$(BIN)/ruff check src tests benchmarks validation docs
	$(BIN)/ruff format --check src tests benchmarks validation docs

types: $(TESTED)
	$(BIN)/mypy

layers: $(TESTED)
	$(BIN)/lint-imports

soak: $(TESTED)           ## a server at 150 to 300 % load for an hour: nothing may grow (SECONDS=60 for a short one)
	cd benchmarks/serving && ../../$(BIN)/python soak.py --seconds $(or $(SECONDS),3600) --rough --load 1.5 2 2.5 3

bench: $(TESTED)          ## speed and memory, as ratios from one run; writes docs/performance.md
	$(PIP) --editable ".[bench]"
	$(BIN)/python benchmarks/run_all.py

validate: $(TESTED)       ## simulated beside measured (DATA=folder); writes docs/validation.md and the errors
	$(BIN)/python -m validation.users --data "$(DATA)" --write docs/validation.md \
	  --errors src/cotenant/prediction/validated.json --before validation/users/half_widths_0.1.json
	$(BIN)/python -m validation.interference --data "$(DATA)" --write docs/validation-predict.md
	$(BIN)/python -m validation --data "$(DATA)" --write docs/validation-parts.md
	$(BIN)/python -m validation --engines --data "$(DATA)" --write docs/validation-llm.md
	$(BIN)/python -m validation.watching --write docs/validation-watch.md

reference: $(TESTED)      ## write the reference pages from the code
	$(BIN)/python docs/generate.py

outputs: $(TESTED)        ## run the commands that pages of the docs quote, and write their output anew (PAGES=file...)
	$(BIN)/python docs/regenerate.py $(PAGES)

outputs-check: $(TESTED)  ## the same, only compare: words equal, numbers within what each page states
	$(BIN)/python docs/regenerate.py --check $(PAGES)

screenshots: $(TESTED)    ## draw the pages of the gallery anew, in Chromium, into docs/images
	PYTHONPATH=. $(BIN)/python docs/screenshots.py --out docs/images

docs: reference $(VENV)/.site  ## build the site, strictly, into site/
	$(BIN)/zensical build --strict

$(VENV)/.site: $(TESTED) pyproject.toml
	$(PIP) --editable ".[docs]"
	@touch $@

docs-serve: reference $(VENV)/.site  ## show the site while you write
	$(BIN)/zensical serve

wheel: $(TESTED)          ## build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

# Everything but torch is checked against the hashes in locked/. torch has builds that differ by platform and index, so
# it is pinned by version; it goes alone: resolved together with what depends on it, pip may pick a CUDA build.
$(READY): pyproject.toml constraints.txt locked/core.txt
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) --requirement locked/core.txt
	$(TORCH)
	$(PIP) --editable ".[models,sim]"
	$(COMPILE)
	@touch $@

$(TESTED): $(READY) locked/dev.txt
	$(LOCKED) --requirement locked/dev.txt
	$(PIP) --editable ".[dev]"
	$(COMPILE)
	@touch $@

# Clients of other projects, which the server is tested with; their packages don't agree with ours.
$(CLIENTS)/.ready: tests/serving/server/clients/requirements.txt
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/pip install --quiet --requirement $<
	@touch $@

browser:                  # what the tests of pages open, and what reads exported files; takes Debian and root
	for tool in chromium shellcheck docker-compose systemd-analyze; do command -v $$tool >/dev/null || missing=1; done; \
	  test -z "$$missing" || { apt-get update -qq && \
	  apt-get install -y -qq chromium shellcheck docker-compose systemd >/dev/null; }

# What the tests of `watch` read from; after the browser, since only one installation can run at a time.
prometheus: browser
	command -v prometheus >/dev/null || { apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends prometheus >/dev/null; }

lock: $(TESTED)           ## write locked/ from constraints.txt: the hashes of all that make installs, apart from torch
	$(BIN)/python tools/lock.py

figures: $(TESTED)        ## write the figures of workloads that ship with the package, from dry runs
	$(BIN)/python tools/figures.py

aa: $(TESTED)             ## the same study twice under real load, PAIRS=10 of each kind: counts false alarms of compare
	$(BIN)/python benchmarks/same_study_twice.py $(or $(PAIRS),10)

storm: $(TESTED)          ## attack files and words at random (SECONDS=1800, SEED=14); says how to repeat each finding
	$(BIN)/python -m tests.storm.storming $(or $(SECONDS),1800) $(or $(SEED),14)

mutants: $(TESTED)        ## put N=200 small faults into the code (SEED=1): how many do the tests notice?
	$(BIN)/python tools/mutants.py --count $(or $(N),200) --seed $(or $(SEED),1) --least $(or $(LEAST),0)

# What the commit before, or the branch's base, is compared with; nothing in a checkout without history.
BASE ?= $(shell git rev-parse --verify --quiet HEAD~1 2>/dev/null)

changed-mutants: $(TESTED) ## eight faults in files that differ from BASE (the commit before), within three minutes
	@test -n "$(BASE)" && git rev-parse --verify --quiet "$(BASE)^{commit}" >/dev/null \
	  || { echo "no earlier commit to compare with: no faults tried"; exit 0; }; \
	$(BIN)/python tools/mutants.py --changed "$(BASE)" --count 8 --seconds 120 --tests-s 10 --seed $(or $(SEED),1)

# Tools that look at packages from outside: what they need themselves stays out of what they look at.
$(SUPPLY)/.ready:
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/pip install --quiet cyclonedx-bom==7.5.0 pip-audit==2.10.1
	@touch $@

sbom: $(SUPPLY)/.ready    ## what an environment contains (ENV=.venv), in CycloneDX: writes OUT=cotenant.cdx.json
	$(SUPPLY)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-file $(or $(OUT),cotenant.cdx.json) $(or $(ENV),$(VENV))

advisories: $(SUPPLY)/.ready ## asks the advisory database of PyPI about all that `make` pins; 1 if there is one
	$(SUPPLY)/bin/pip-audit --strict --disable-pip --require-hashes --requirement locked/core.txt --requirement locked/dev.txt
	grep '^torch==' constraints.txt > $(SUPPLY)/torch.txt
	$(SUPPLY)/bin/pip-audit --strict --disable-pip --no-deps --requirement $(SUPPLY)/torch.txt

clean:
	rm -rf $(VENV) $(CLIENTS) $(SUPPLY) build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
