# make lab    set up what a reader needs, and open JupyterLab on a copy of the notebooks
# make test   set up the rest too, and check everything, one in four of the slow tests and of the examples that
#             they draw: what CI runs (SLOW=1: all)
# make browser  its part in a browser: Chromium (installed where it is missing), JupyterLab
# make tour   set up, run the tour without a browser, write build/tour.html and print its results
# make picture  the pictures of README.md, taken in JupyterLab
# make screenshots  every view and page at three widths in both themes, and contact sheets, to look at
# make bench  set up, and time the ten models beside the libraries that are installed
# make bench-pages  the plots and tables of the documentation, from what `make bench` measured
# make gpu    on a machine with a CUDA GPU: every test that needs one, the benchmark beside cuBLAS and
#             torch, into build/gpu.json, and 10,000 random schedule steps; by a Python that has CuPy,
#             hypothesis, llvmlite, onnx and pytest already (nothing is downloaded then), else by one
#             that it sets up
# make fuzz   10,000 random schedule steps, each checked; FUZZ="--steps 50000 --seed 3" for others,
#             FUZZ="--gpu" for programs for GPUs, on simulated threads
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
# what a reader needs, and what the tests need on top of it
LAB    := .venv/.lab
STAMP  := .venv/.installed
INSTALL := install --quiet --disable-pip-version-check --no-input
PIP    := -m pip $(INSTALL)
FREEZE := -m pip freeze --all --exclude pip --exclude-editable
TOUR   := notebooks/00_tour.ipynb
# Tests of threads and interrupts: they want the cores to themselves. Notebooks run two at a time.
ALONE  := tests/runtime tests/test_driver.py tests/observe/test_benchmark.py
# NVIDIA's compiler, for the tests of CUDA kernels: there is none for macOS.
CUDA   := $(if $(filter Darwin,$(shell uname -s)),,--requirement requirements-cuda.lock)

# Hundreds of processes import the package here, each of which would compile it anew where its
# byte code is not kept: 2 s of a core.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: lab test browser lint tour picture screenshots bench bench-pages gpu fuzz seeds torch lock \
	format clean

lab: $(LAB)
	@$(BIN)/mlcnb lab mlcnb-notebooks

test: lint $(if $(PYTEST),,browser)
ifdef PYTEST
	$(BIN)/python -m pytest $(PYTEST)
else
	MLCNB_SLOW=$(SLOW) $(BIN)/python -m pytest -n 2 --dist worksteal $(addprefix --ignore ,tests/browser tests/test_notebooks.py tests/test_house.py $(ALONE))
	$(BIN)/python -m pytest $(ALONE)
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/test_notebooks.py
endif

browser: $(STAMP)
	$(BIN)/python -m tests.browser.install_chromium
	MLCNB_SLOW=$(SLOW) $(BIN)/python -m pytest -n 2 tests/browser

# its last line, the counts of the house, is left out of `test`, which lints first
lint: $(STAMP)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m pytest -q tests/test_house.py

tour: $(LAB)
	@$(BIN)/python tests/run_notebook.py $(TOUR) --html build/tour.html --print top-1: top-3: ratio

picture: $(STAMP)
	@$(BIN)/python -m tests.browser.picture

screenshots: $(STAMP)
	@$(BIN)/python -m tests.browser.screenshots

bench: $(STAMP)
	@$(BIN)/python -m tests.benchmarks $(BENCH) --json build/bench.json

bench-pages: $(STAMP)
	@$(BIN)/python -m tests.benchmarks.pages build/bench.json

ifeq ($(shell $(PYTHON) -c 'import cupy, hypothesis, llvmlite, onnx, pytest' 2>/dev/null && echo there),there)
GPU := PYTHONPATH=.:$$PYTHONPATH $(PYTHON)
gpu:
else
GPU := $(BIN)/python
gpu: $(STAMP)
	@$(BIN)/python $(PIP) --requirement requirements-gpu.lock
endif
	$(GPU) -m pytest -m gpu tests/gpu tests/codegen
	$(GPU) -W ignore -m tests.benchmarks.gpu --json build/gpu.json
	$(GPU) -m tests.tir.schedule.fuzz --gpu

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

# One environment, made once, and again when a lock or the project file changes. The interpreter's own
# pip fills it: a copy of pip that is made and compiled only to fetch the rest takes 3 s and 10 MB.
# What no reader opens goes again (a fifth: binder/trim.py says what and why); the tests get ONNX's own back.
# Jupyter beside it saves notebooks as HTML with the static form of each page, as after pip install.
# Modules are compiled when they are first imported; before tests, where a warning of the compiler is
# an error, all are.
$(LAB): binder/requirements.txt pyproject.toml mlcnb/cli/settings/jupyter_config.json
	@test -n "$(PYTHON)" || { echo "mlcnb needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up .venv: once, 0.5 GB, half a minute to two; then comes what you asked for"
	@$(BIN)/python -c "" 2>/dev/null || $(PYTHON) -m venv --clear --without-pip .venv
	@pip="$(PYTHON) -m pip --python $(BIN)/python"; \
	$$pip --version >/dev/null 2>&1 || { pip="$(BIN)/python -m pip"; $(BIN)/python -m ensurepip >/dev/null; }; \
	$$pip $(INSTALL) --no-compile --requirement binder/requirements.txt pip && \
	$$pip $(INSTALL) --no-deps --no-compile --no-build-isolation --editable .
	@mkdir -p .venv/etc/jupyter && cp mlcnb/cli/settings/jupyter_config.json .venv/etc/jupyter/
	@$(BIN)/python -S binder/trim.py .venv
	@touch $(LAB)

$(STAMP): $(LAB) requirements.lock requirements-cuda.lock
	@echo "setting up what the tests need: once, 0.8 GB more, another minute or two"
	@$(BIN)/python $(PIP) --requirement requirements.lock $(CUDA)
	@$(BIN)/python $(PIP) --force-reinstall --no-deps $$(grep ^onnx== requirements.lock)
	@$(BIN)/python -W ignore -m compileall -qq -j 0 .venv/lib || true
	@touch $(STAMP)
