# make        build .venv and run the pipeline on the embedded sample
# make test   build .venv and run all tests
# make env    build .venv only
# make bench  build .venv and run the benchmarks, an hour; make bench GOAL=long_scores runs one: see bench/README.md
# make oracles  build .venv-oracles, which some tests compare with: mlcroissant, DVC with S3 and SSH, moto
PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: all env oracles test bench lock
all: env
	dvc repro
	@echo "Done: open reports/index.html. Next: source .venv/bin/activate; rankledger"

env: .venv/.built

.venv/.built: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(f"RankLedger needs Python 3.11 or newer, $(PYTHON) is {v.major}.{v.minor}: make PYTHON=python3.12" if v < (3, 11) else 0)'
	@echo "installing packages into .venv, a minute or two"
	$(PYTHON) -m venv --clear .venv
	.venv/bin/python -m pip install -qq --require-hashes -r requirements.lock
	.venv/bin/python -m pip install -qq --no-deps --no-build-isolation --editable .
	touch $@

oracles: .venv-oracles/.built

.venv-oracles/.built: requirements-oracles.lock
	$(PYTHON) -m venv --clear .venv-oracles
	.venv-oracles/bin/python -m pip install -qq --require-hashes -r requirements-oracles.lock
	touch $@

test: env
	ruff check
	ruff format --check
	mypy
	pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

GOAL ?= long_scores ranking_lists embeddings recipe1m streaming small
bench: env
	for goal in $(GOAL); do python -m bench.$$goal || exit 1; done

lock:  # needs uv
	uv pip compile pyproject.toml --universal --python-version 3.11 --extra dev \
	    --generate-hashes --no-emit-index-url --no-header --upgrade --output-file requirements.lock
	uv pip compile --group oracles --constraint requirements.lock --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --upgrade --output-file requirements-oracles.lock
