# Every target does its own set-up in .venv. Needs make and Python 3.11 to 3.13, nothing else.
PYTHON ?= python3
SEED ?= 1
N ?= 300
JOBS ?= 2
SECONDS ?= 1800
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install -c constraints.txt
ARGS ?=

.PHONY: help demo scenarios test check fix bench sim mutants leaks soak pressure clean

help:
	@echo "make demo [SEED=n]  serve the bundled model and hold checked conversations through it"
	@echo "make scenarios [SEED=n]  play the nine scenarios of the design over HTTP with little room; what each promises"
	@echo "make test           run the whole test suite"
	@echo "make check          format, lint, types, import contracts, architecture tests"
	@echo "make fix            format and repair what ruff can repair"
	@echo "make sim [SEED=n N=n JOBS=n]  run simulated worlds from seeds and check everything they say and keep"
	@echo "make mutants        plant small faults into a copy; simulator and state machines must find each"
	@echo "make leaks          serve 10,000 simulated requests and count what is left of them"
	@echo "make soak [SECONDS=n SEED=n]  overload a server, clients that leave included; check every answer and record"
	@echo "make pressure [SEED=n]  200 mixed requests under pressure, alone and without a cache: the same token for token"
	@echo "make bench          print the speed and memory figures"
	@echo "make gpu            run the device's tests on the machine's GPU"

# torch first: a later requirement then finds it in place and brings no other build of it.
$(VENV)/base.stamp: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 14) else "Python 3.11 to 3.13 is needed (make PYTHON=...)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e ".[demo]"
	touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	$(PIP) -e ".[dev]"
	touch $@

demo: $(VENV)/base.stamp
	$(BIN)/python -m demo --seed $(SEED)

scenarios: $(VENV)/base.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m demo.scenarios --seed $(SEED) $(ARGS)

test: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/arch $(ARGS)

fix: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench $(ARGS)

gpu: $(VENV)/dev.stamp
	NINFER_TEST_DEVICE=cuda $(BIN)/python -m pytest tests/gpu $(ARGS)

# The engine over a simulated device: no model, no tensor.
sim: $(VENV)/dev.stamp
	$(BIN)/ninfer sim --seed $(SEED) --count $(N) --jobs $(JOBS)

mutants: $(VENV)/dev.stamp
	$(BIN)/python -m scripts.mutants --jobs $(JOBS) $(ARGS)

leaks: $(VENV)/dev.stamp
	$(BIN)/python -m scripts.leaks $(ARGS)

soak: $(VENV)/dev.stamp
	$(BIN)/python -m bench.soak --seconds $(SECONDS) --seed $(SEED)

pressure: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.pressure --seed $(SEED) $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
