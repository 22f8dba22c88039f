# Needs python3 (3.11 or newer) and make; everything else comes with `make env`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SITE   := .venv-docs
PYTHONS ?= python3.11 python3.12 python3.13
JOBS   ?= 2
GPU_PYTHON ?= $(PYTHON)
KIND   ?= tiles
COUNT  ?= 200
SEED   ?= 0
BASE   ?= HEAD
SAME   ?=
FUZZ   ?=
# Python keeps what it compiled, whatever the surroundings say: the tests start some hundred processes, and each would
# compile the whole package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help env demo test test-long test-gpu fuzz lint golden weight same docs wheel clean

help:
	@echo "make demo       check, simulate and compile a kernel; run it where there is a GPU"
	@echo "make test       the test suite (JOBS=$(JOBS) processes); PHALANX_TEST_CXX= the C++ compiler that runs CUDA text on the CPU"
	@echo "make test-long  all of it: also the long exploring, mutating and random tests, and the parameters outside a test's share"
	@echo "make test-gpu   the tests that need a GPU, side by side, and a summary in out/gpu_tests.txt (GPU_PYTHON= has torch)"
	@echo "make fuzz       random cases: KIND=tiles, choreography, tensor, pipelines, flights, signals, handovers or sources;"
	@echo "                COUNT=, SEED=, FUZZ=--sanitize"
	@echo "make lint       ruff and mypy"
	@echo "make golden     write the golden files anew"
	@echo "make weight     lines of code by room, the largest files and functions, the longest kernel signatures"
	@echo "make same       what drawn calls launch, against the commit BASE= ($(BASE)): kernels, grids, constants, CUDA text; no GPU;"
	@echo "                SEED=, SAME='--op rms_norm --count 20' for a part of it"
	@echo "make docs       the documentation site in build/docs, without warnings, its links checked"
	@echo "make wheel      a wheel in dist, installed and tried in an empty environment of each Python (PYTHONS=)"

env: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Phalanx needs Python 3.11 or newer; try: make env PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@rm -rf src/*.egg-info  # what building leaves: pytest would rewrite the assertions of every module that it names
	@touch $@

demo: env
	$(BIN)/python examples/demo.py

# Plug-ins are named: pytest would rewrite the assertions of the whole package for the one that it declares.
PYTEST = $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --disable-plugin-autoload -p xdist.plugin \
	-p _hypothesis_pytestplugin -p phalanx.tools.pytest_plugin

test: env
	$(PYTEST) -m "not long" tests

test-long: env
	$(PYTEST) tests

test-gpu:
	@mkdir -p out
	PYTHONPATH=src:tests:. $(GPU_PYTHON) benchmarks/gpu_tests.py --out out/gpu_tests.txt

fuzz: env
	PYTHONPATH=src:tests $(BIN)/python -m fuzz $(KIND) --count $(COUNT) --seed $(SEED) --jobs $(JOBS) $(FUZZ)

lint: env
	$(BIN)/ruff check .
	$(BIN)/mypy src
	@# scripts import each other, examples and what tests share; misc: the type of a lambda whose defaults keep what a loop has
	MYPYPATH=src:tests:.:examples:examples/gemm:examples/attention:examples/simple \
		$(BIN)/mypy --explicit-package-bases --disable-error-code misc benchmarks

golden: env
	$(BIN)/python -m pytest -q tests/golden tests/kernels/test_choices.py tests/test_floors.py tests/tools/test_stubs.py tests/docs -m "not long" --regenerate

weight: env
	$(BIN)/python benchmarks/weight.py

same: env
	$(BIN)/python benchmarks/same_launches.py $(BASE) --seed $(SEED) $(SAME)

docs: $(SITE)/.installed
	$(SITE)/bin/python -m sphinx -q -W --keep-going -d build/doctrees -c docs/site . build/docs
	$(SITE)/bin/python docs/site/links.py build/docs

$(SITE)/.installed: pyproject.toml requirements.lock docs/site/requirements.lock
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock \
		-c docs/site/requirements.lock -e '.[docs]'
	@touch $@

wheel: env
	$(BIN)/python tests/wheel.py $(PYTHONS)

clean:
	rm -rf $(VENV) $(SITE) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
