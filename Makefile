# Two commands on a fresh clone: `make demo` and `make test`. Both set up .venv themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Bytecode is kept, also where the environment says otherwise: the tests start thousands of
# processes, and each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test quick check lint types imports site unit test-slow screenshots bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: setup  ## tune the example script, then show what was written
	cd examples/digits && ../../$(BIN)/hotlap tune --budget 145s train.py || test $$? -eq 1
	@echo; cd examples/digits && cat hotlap*.toml 2>/dev/null || true

test: setup  # what needs one core each runs side by side; the tests have the machine for themselves
	$(MAKE) --jobs 2 types site imports lint
	$(MAKE) unit

quick: setup  ## the tests that start no process: about a minute
	$(BIN)/pytest -m "not slow and not gpu" --quick -n 2 --dist worksteal

check: lint types imports quick  ## what to run before each commit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

site: setup  ## the documentation; its technique and command pages are made from the code
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

unit: setup  # four at a time on two cores: many tests wait for processes
	$(BIN)/pytest -m "not slow and not gpu" -n 4 --dist worksteal --durations 20

test-slow: setup  ## what takes minutes: 40 honest races, kills at random moments, further variants
	$(BIN)/pytest -m slow

screenshots: setup  ## the pictures of README and documentation, from real runs
	$(BIN)/python docs/screenshots.py
	$(BIN)/python -m docs.recording

bench: setup
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) .hotlap site dist
