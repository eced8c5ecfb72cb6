# Every target sets itself up: a fresh machine needs only Python >= 3.11 with venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo cluster certs test lint types contracts format sim system installed browser bench fuzz fuzz-api lock audit bill cover rewrite build clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.done ## make .venv with everything the other targets need

$(VENV)/.done: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server,cli,dev]'
	@touch $@

demo: setup ## three nodes, eight executors, real load: balance, drain, kill, compare (ARGS="--seconds N --json")
	@$(BIN)/python -m bench.demo $(ARGS)

cluster: setup ## three nodes on 127.0.0.1:7070, :7170 and :7270 until Ctrl-C, to try things out
	@for n in 1 2 3; do $(BIN)/shard-coordinator --config configs/node-$$n.toml & pids="$$pids $$!"; done; \
	trap "kill $$pids" INT TERM HUP; wait; wait

certs: ## certs/: a private CA and certificates of n1, n2, n3 for TLS on the Raft port (ARGS="FOLDER NODE ...")
	@configs/certs.sh $(ARGS)

test: setup ## run every test but the slow ones (ARGS="tests/core -k name" narrows, ARGS="-n 0" is one at a time)
	@$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadfile $(ARGS)

lint: setup ## ruff: rules and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

contracts: setup ## import contracts between the layers
	@$(BIN)/lint-imports

format: setup ## rewrite files in the house format
	@$(BIN)/ruff check --fix-only --quiet . ; $(BIN)/ruff format .

sim: setup ## the deterministic simulator (ARGS="--scope consensus|system --seeds 0-199")
	@$(BIN)/python -m tests.sim $(ARGS)

system: setup ## tests with real processes, the slow ones too; partitions need root, iproute2 and iptables
	@$(BIN)/python -m pytest tests/system $(ARGS)

installed: setup ## the guide's installs, on a machine with systemd and as an image (root; apt install debootstrap systemd-container buildah)
	@$(BIN)/python -m pytest tests/installed $(ARGS)

browser: setup ## the dashboard in a real Chromium (apt install chromium); pictures in screenshots/; axe-core where npm is
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@test -e $(VENV)/package/axe.min.js || ! command -v npm >/dev/null || npm pack --silent axe-core@4.10.2 --pack-destination $(VENV) >/dev/null && tar -xzf $(VENV)/axe-core-4.10.2.tgz -C $(VENV) package/axe.min.js || true
	@$(BIN)/python -m pytest tests/browser --screenshots screenshots $$(test -e $(VENV)/package/axe.min.js && echo --axe $(VENV)/package/axe.min.js) $(ARGS)

bench: setup ## every bench into bench/results/, table and picture into bench/README.md (ARGS="api peers --quick")
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@$(BIN)/python -m bench $(ARGS)

fuzz: setup ## bytes from nowhere for a minute, guided by coverage (ARGS="--seconds N --json")
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@$(BIN)/python -m bench.fuzz $(ARGS)

fuzz-api: setup ## 20,000 requests made from /openapi.json against three real nodes (ARGS="--cases N --json")
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@$(BIN)/python -m bench.fuzz_api $(ARGS)

lock: setup ## configs/requirements.lock: every version of a server's install, with the hashes of its files
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[audit]'
	@$(BIN)/uv pip compile --quiet --no-header --universal --generate-hashes --python-version 3.11 --index-url https://pypi.org/simple \
	  --extra server --extra cli --output-file configs/requirements.lock pyproject.toml $(ARGS)

audit: setup ## rules of security, the lock against pyproject.toml and known vulnerabilities (asks pypi.org)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[audit]'
	@$(BIN)/ruff check . # its S rules are among ours
	@$(BIN)/python -m tests.supply check
	@$(BIN)/pip-audit --strict --require-hashes --disable-pip --requirement configs/requirements.lock $(ARGS)

bill: setup ## dist/bill.cdx.json: the bill of materials, from the lock
	@mkdir -p dist && $(BIN)/python -m tests.supply bill > dist/bill.cdx.json

cover: setup ## branch coverage of the core; fails under 100 %
	@$(BIN)/coverage run --source=coordinator/core -m pytest -q -m "not slow" tests/core
	@$(BIN)/coverage report --fail-under=100

rewrite: setup ## write the traces in tests/scenarios and the list of metrics anew; review them as a diff
	@REWRITE=1 $(BIN)/python -m pytest -q tests/scenarios tests/metrics/test_reference.py

build: setup ## wheel and sdist into dist/
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove everything that was made
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
