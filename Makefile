# Every command a newcomer needs. One thread per process: more fight over shared cores.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export DVC_NO_ANALYTICS := 1

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup lint test test-slow

setup: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 -m "not slow and not slurm and not s3"

test-slow: setup
	$(BIN)/pytest -m "slow or slurm or s3"
