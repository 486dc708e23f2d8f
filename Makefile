# make lab    set up, and open JupyterLab on the tour
# make test   set up, and check everything, one in four of the slow tests: what CI runs (SLOW=1: all)
# make browser  its part in a browser: Chromium (installed where it is missing), JupyterLab
# make tour   set up, run the tour without a browser, write build/tour.html and print its results
# make bench  set up, and time the ten models beside the libraries that are installed
# make bench-pages  the plots and tables of the documentation, from what `make bench` measured
# make fuzz   10,000 random schedule steps, each checked; FUZZ="--steps 50000 --seed 3" for others
# make seeds  every test that draws its input, TIMES=20 times, with other draws each time
# make torch  install PyTorch (for the CPU) too, so that the tests of its front end run
# make lock   resolve the dependencies anew into requirements.lock and requirements-cuda.lock
# make format, make clean
#
# PYTHON=python3.13 chooses the interpreter (else one that is 3.11 or newer is looked for),
# PYTEST="-x tests/op" the tests, BENCH="all --threads 2" what to time (python -m tests.benchmarks --help).

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PYTEST ?=
# of so many slow tests one runs
SLOW   ?= 4
BENCH  ?= models
FUZZ   ?=
TIMES  ?= 20

BIN    := .venv/bin
STAMP  := .venv/.installed
PIP    := -m pip install --quiet --disable-pip-version-check --no-input
FREEZE := -m pip freeze --all --exclude pip --exclude-editable
TOUR   := notebooks/00_tour.ipynb
# Tests of threads, interrupts and whole notebooks: they want the cores to themselves.
ALONE  := tests/runtime tests/test_driver.py tests/test_notebooks.py tests/observe/test_benchmark.py
# NVIDIA's compiler, for the tests of CUDA kernels: there is none for macOS.
CUDA   := $(if $(filter Darwin,$(shell uname -s)),,--requirement requirements-cuda.lock)

.PHONY: lab test browser lint tour bench bench-pages fuzz seeds torch lock format clean

lab: $(STAMP)
	$(BIN)/mlcnb lab notebooks

test: lint $(if $(PYTEST),,browser)
ifdef PYTEST
	$(BIN)/python -m pytest $(PYTEST)
else
	MLCNB_SLOW=$(SLOW) $(BIN)/python -m pytest -n 2 --dist worksteal $(addprefix --ignore ,tests/browser $(ALONE))
	$(BIN)/python -m pytest $(ALONE)
endif

browser: $(STAMP)
	$(BIN)/python -m tests.browser.install_chromium
	$(BIN)/python -m pytest -n 2 tests/browser

lint: $(STAMP)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

tour: $(STAMP)
	@$(BIN)/python tests/run_notebook.py $(TOUR) --html build/tour.html --print top-1: top-3: ratio

bench: $(STAMP)
	@$(BIN)/python -m tests.benchmarks $(BENCH) --json build/bench.json

bench-pages: $(STAMP)
	@$(BIN)/python -m tests.benchmarks.pages build/bench.json

fuzz: $(STAMP)
	@$(BIN)/python -m tests.tir.schedule.fuzz $(FUZZ)

seeds: $(STAMP)
	@for seed in $$(seq 1 $(TIMES)); do \
	    env -u CI $(BIN)/python -m pytest -q -n 2 --dist worksteal -m hypothesis --hypothesis-seed=$$(date +%N) \
	        $$(grep -rl --include 'test_*.py' 'from hypothesis' tests) || exit 1; done

torch: $(STAMP)
	@$(BIN)/python $(PIP) --requirement requirements-torch.lock

lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python $(PIP) --upgrade pip
	build/lock/bin/python $(PIP) --editable '.[lab]' 'setuptools>=77'
	build/lock/bin/python $(FREEZE) > binder/requirements.txt
	build/lock/bin/python $(PIP) --constraint binder/requirements.txt --editable '.[lab,dev]'
	build/lock/bin/python $(FREEZE) | grep -v ^nvidia- > requirements.lock
	build/lock/bin/python $(FREEZE) | grep ^nvidia- > requirements-cuda.lock

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist mlcnb.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment, made once, and again when the lock or the project file changes.
$(STAMP): requirements.lock requirements-cuda.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "mlcnb needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	    echo "making .venv (once, a minute or two)"; $(PYTHON) -m venv --clear .venv; }
	@$(BIN)/python $(PIP) --requirement requirements.lock $(CUDA)
	@$(BIN)/python $(PIP) --no-build-isolation --no-deps --editable .
	@touch $(STAMP)
