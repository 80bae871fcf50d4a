# Everything a newcomer needs: `make run` and `make test`. Both create .venv when it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test unit check format bench clean

run: $(STAMP)
	$(BIN)/mnemolog up --demo

test: $(STAMP)
	$(BIN)/python -m pytest tests/unit tests/compat tests/docs tests/fundamentals tests/conformance tests/properties tests/acceptance tests/chaos

unit: $(STAMP)
	$(BIN)/python -m pytest -q tests/unit tests/compat tests/docs

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -q tests/unit/test_architecture.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build *.egg-info

# torch comes first and by its exact version, so that pip can take a CPU build where one is offered.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)
