# Every command a newcomer needs. One thread per process: more fight over shared cores.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export DVC_NO_ANALYTICS := 1
# Where it is set, every process would compile every module it imports: twice the time of an import.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup setup-dev docs reproduce paper lint kernels test smoke test-workflow test-both test-generic test-slow lock lock-check peers

# What runs; `setup-dev` adds what tests and lints. Python compiles what is imported; compiling all takes a minute.
# Files are held against the checksums of .ci/hashes; then torch, in the build that the index has.
HASHED = $(BIN)/python -m pip install --quiet --no-compile --require-hashes -r .ci/hashes/requirements.lock
setup: .venv/installed
setup-dev: .venv/installed-dev

.venv/installed: requirements.lock .ci/hashes/requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(HASHED)
	$(BIN)/python -m pip install --quiet --no-compile -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.venv/installed-dev: .venv/installed .ci/hashes/requirements-dev.lock
	$(HASHED) -r .ci/hashes/requirements-dev.lock
	touch $@

.venv/installed-docs: .venv/installed .ci/hashes/requirements-docs.lock
	$(HASHED) -r .ci/hashes/requirements-docs.lock
	touch $@

# The documentation as a site that works from disk; a broken link, an unknown name or any other warning is an error.
docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

# A real, small reproduction: trains for some minutes on two cores.
reproduce: setup
	$(BIN)/snakemake --config suite=quick
	@echo "Open results/quick/report/index.html"

# Every table and figure of the paper from the runs that exist; trains nothing.
paper: setup
	test ! -f dvc.lock || $(BIN)/fp3o pull
	$(BIN)/snakemake available
	@echo "Open results/paper/report/index.html"

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow

# Three processes on two cores: some tests wait.
PYTEST := $(BIN)/pytest -n 3 --dist worksteal --durations=25
FAST := not workflow and not slow and not slurm and not s3
test: setup-dev
	$(MAKE) -j 2 lint kernels
	$(PYTEST) -m "$(FAST)"

# The simulators' machine code, compiled once for all processes that train or test, beside the linters.
kernels: setup
	$(BIN)/python tests/compile_kernels.py

# Every domain and every rule with the real trainer: training, tables, figures, report. `setup-dev` has games of others.
smoke: setup-dev kernels
	$(BIN)/snakemake --workflow-profile profiles/smoke
	$(BIN)/fp3o status --suite smoke

# DVC, edits and interruptions: the workflow with a trainer that takes no time.
test-workflow: setup-dev
	$(PYTEST) -m "workflow and not slow" tests/workflow

# Both kinds at once, for CI, which has run `lint` and `kernels` before.
test-both: setup-dev
	$(PYTEST) -m "not slow and not slurm and not s3"

# The tests as another processor would run them: without this one's vector instructions in torch, NumPy and numba.
FEATURES = from numpy._core import _multiarray_umath as m; print(*(f for f in m.__cpu_dispatch__ if m.__cpu_features__[f]))
test-generic: setup-dev
	ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(FEATURES)')" \
		$(PYTEST) -m "$(FAST)"

test-slow: setup-dev
	$(BIN)/pytest -m "slow or slurm or s3"

# Processor time of an iteration: ours, BenchMARL's and, with JAXMARL=<checkout of its repository>, JaxMARL's. Each has
# an environment of its own.
.venv-peers/%: benchmarks/speed/%.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --no-compile -r $< || { rm -r $@; false; }
peers: setup .venv-peers/peers_benchmarl $(if $(JAXMARL),.venv-peers/peers_jaxmarl)
	$(BIN)/python benchmarks/speed/peers.py --benchmarl .venv-peers/peers_benchmarl/bin/python \
		$(if $(JAXMARL),--jaxmarl .venv-peers/peers_jaxmarl/bin/python $(JAXMARL))

# All locks from pyproject.toml; pins that still fit stay. `make lock UPGRADE="numpy scipy"` takes their newest versions.
lock: setup-dev
	$(BIN)/python .ci/lock.py write $(if $(UPGRADE),--upgrade $(UPGRADE))
	$(BIN)/python .ci/lock.py check

# Asks the package index whether every pinned version has files for every platform; installs nothing.
lock-check: setup-dev
	$(BIN)/python .ci/lock.py check
