# Few targets over scripts/. `make up` and `make test` need only Python 3.11+, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
# Tests start programs by the thousand, and five processes read every test: each file is compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Five on two cores: most tests wait for a lease to run out or a process to end.
JOBS ?= 5

.PHONY: test-agents docs dist man test-pythons bench-metrics bench-cells bench-pages burst fuzz-api stress bench-drain bench-enqueue bench-latency up test check lint types imports spec soak soak-sqlite soak-postgresql mutations chaos holders holders-often takeovers takeovers-cells fuzz screenshots bench-cron bench-startup bench-schedules bench-apply bench-idle bench-prune bench-agents bench-history bench-costs bench-model-gate profile-drain format clean

$(RUNS): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --editable '.[postgres,web]'
	touch $@

$(READY): $(RUNS)  # what only tests and checks need is ten times as much
	$(BIN)/pip install --quiet --group test --group check
	touch $@

up: $(RUNS)
	cd examples/hello && $(CURDIR)/$(BIN)/fencepost up

test: $(READY)
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(PYTEST)

# With the real agent CLIs, which npm and pip install into .cache/agents; one that cannot be had is told, and fails this.
# With ABSENT=allowed the others are tried all the same. STORY=main: what every change has to show, in minutes.
ABSENT ?=
STORY ?= all
test-agents: export FENCEPOST_TEST_AGENTS = $(STORY)
test-agents: $(READY)
	$(BIN)/python -m tests.agents.install || test "$(ABSENT)" = allowed
	$(BIN)/pytest tests/agents --timeout 1200 $(PYTEST)  # in one process, which tells several stories at once

# On every supported Python that is found here, or on some: PYTHONS="3.12 3.13". A part of the suite: PYTEST=tests/model.
PYTHONS ?=
test-pythons:
	PYTEST="$(PYTEST)" JOBS="$(JOBS)" $(PYTHON) scripts/pythons.py $(PYTHONS)

# What is released: a wheel, and the source that it is made from. The tests build and install both.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# The site of the docs, in build/site: every warning is an error, such as a link that leads nowhere.
docs: $(READY)
	$(BIN)/pip install --quiet --group docs
	$(BIN)/python -m scripts.site
	@echo "build/site/index.html"

# The pages that are written from the program itself; a test compares them.
man: $(READY)
	$(BIN)/python -m fencepost.cli.man_page > packaging/fencepost.1
	$(BIN)/python -m fencepost.cli.reference > docs/reference/commands.md
	$(BIN)/python -c 'from fencepost.config.reference_page import page; print(page(), end="")' > docs/reference/configuration.md

check: lint types imports

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# Seed after seed for so long on each store, on SQLite leases first, then every kind of gate, adoption, then the whole runtime; a new start each time:
# START=$RANDOM. One store alone: STORE=postgresql.
SECONDS ?= 600
START ?= 100000
STORE ?= sqlite postgresql
soak: $(addprefix soak-,$(STORE))

soak-sqlite: $(READY)
	$(BIN)/python -m tests.simulation.run --start $(START) --seconds $$(($(SECONDS) / 4))
	$(BIN)/python -m tests.simulation.gates.run --start $(START) --seconds $$(($(SECONDS) / 6))
	$(BIN)/python -m tests.simulation.cells.run --start $(START) --seconds $$(($(SECONDS) / 6))
	$(BIN)/python -m tests.simulation.adoption.run --start $(START) --seconds $$(($(SECONDS) / 6))
	$(BIN)/python -m tests.simulation.moving.run --start $(START) --seconds $$(($(SECONDS) / 12))
	$(BIN)/python -m tests.simulation.runtime.run --start $(START) --seconds $$(($(SECONDS) / 3))

soak-postgresql: $(READY)
	$(BIN)/python -m tests.simulation.runtime.run --store postgresql --start $(START) --seconds $(SECONDS)

# Faults on real processes, with a million runs that wait; how long takeovers take; any bytes at all for whatever reads some.
chaos: $(READY)
	FENCEPOST_TEST_BACKLOG=1000000 $(BIN)/pytest tests/chaos -q -n $(JOBS) --timeout 0 $(PYTEST)

# P7 for every way to run, with the guard, the worker or neither frozen, one and a hundred: half an hour.
holders: $(READY)
	FENCEPOST_TEST_HOLDERS=all $(BIN)/pytest tests/service/test_every_holder_ends_in_time.py -q --timeout 0 $(PYTEST)

# A row of each kind, again and again, up to the first that fails; most of a row is waiting for a lease, so six at a time.
TIMES ?= 50
holders-often: $(READY)
	for time in $$(seq $(TIMES)); do \
	  $(BIN)/pytest tests/service/test_every_holder_ends_in_time.py -q --timeout 0 -n 6 --dist worksteal $(PYTEST) || exit 1; echo "$$time times"; done

KILLS ?= 100
takeovers: $(READY)
	$(BIN)/python -m tests.chaos.takeovers --kills $(KILLS)

# Between two machines with their own processes, names and networks, on each kind of cells.
TAKEOVERS ?= 1000
takeovers-cells: $(READY)
	FENCEPOST_TEST_TAKEOVERS=$(TAKEOVERS) $(BIN)/pytest tests/cells/test_takeovers.py -q -s --timeout 0 $(PYTEST)

TARGETS ?= cron duration config webhooks frames redaction arguments
fuzz: $(READY)
	$(BIN)/pip install --quiet --group fuzz
	for target in $(TARGETS); do $(BIN)/python -m tests.fuzz.run $$target --seconds $(SECONDS) || exit 1; done

mutations: $(READY)
	$(BIN)/python scripts/mutations.py

screenshots: $(READY)  # of the dashboard, for the docs
	PYTHONPATH=. $(BIN)/python scripts/screenshots.py

spec:
	$(PYTHON) scripts/spec.py

bench-cron: $(READY)
	$(BIN)/python bench/cron.py

bench-schedules: $(READY)
	$(BIN)/python -m bench.schedules
	$(BIN)/python -m bench.schedules --registered 1000000

bench-apply: $(READY)
	$(BIN)/python -m bench.apply

bench-idle: $(READY)
	$(BIN)/python -m bench.idle

bench-agents: $(READY)  # a thousand agents by one worker; as root
	PYTHONPATH=. $(BIN)/python bench/agents.py

bench-prune: $(READY)
	PYTHONPATH=. $(BIN)/python bench/prune.py

HISTORY ?= 500000
bench-history: $(READY)  # a store with many ended runs beside one with few; HISTORY=10000000 takes its time
	PYTHONPATH=. $(BIN)/python -m bench.history --runs $(HISTORY)

bench-costs: $(READY)  # what a tick, a run, a renewal and an idle worker cost a PostgreSQL server
	PYTHONPATH=. $(BIN)/python -m bench.costs

bench-startup: $(READY)
	PYTHONPATH=. $(BIN)/python -m bench.startup $(if $(BESIDE),--beside $(BESIDE))

bench-model-gate: $(READY)  # what the model gate adds to the first byte of an answer
	PYTHONPATH=. $(BIN)/python bench/model_gate.py

bench-drain: $(READY)
	$(BIN)/pip install --quiet --group bench
	PYTHONPATH=. $(BIN)/python bench/drain.py

profile-drain: $(READY)  # where the time of a drain on PostgreSQL goes
	PYTHONPATH=. $(BIN)/python bench/profile_drain.py

bench-latency: $(READY)
	PYTHONPATH=. $(BIN)/python bench/latency.py

bench-enqueue: $(READY)
	$(BIN)/pip install --quiet --group bench
	PYTHONPATH=. $(BIN)/python bench/enqueue.py
	$(BIN)/python -m bench.callers

clean:
	rm -rf $(VENV) .venvs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Ten thousand stale writes at every kind of gate, with progress: half an hour, most of it starting git.
stress: $(READY)
	FENCEPOST_TEST_STALE_WRITES=10000 $(BIN)/pytest tests/gates/test_stress.py -q -s --timeout 0

burst: $(READY)  # ten thousand webhook deliveries four times, with the server killed in the middle: minutes
	FENCEPOST_TEST_BURST=10000 $(BIN)/pytest tests/web/test_burst.py -q -s --timeout 0

fuzz-api: $(READY)  # two hundred requests for each operation of the OpenAPI document, good ones and bad ones
	FENCEPOST_TEST_EXAMPLES=200 $(BIN)/pytest tests/web/test_openapi.py -q --timeout 0

bench-metrics: $(READY)
	$(BIN)/python -m bench.metrics

bench-cells: $(READY)  # a lease on each kind of cells beside the raw swap
	$(BIN)/python -m bench.cells

bench-pages: $(READY)  # of the dashboard, on both stores
	PYTHONPATH=. $(BIN)/python bench/pages.py
