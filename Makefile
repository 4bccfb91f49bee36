# Thin wrappers around the `harness` command. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
TARGET ?= gfx950
MODE   ?= test
FILE   ?=
SHAPES ?=
A      ?=
B      ?=

BIN     := $(VENV)/bin
HARNESS := $(BIN)/harness
READY   := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup submit candidates inspect pick report eval check ab peers test test-gpu lint clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY) ## Make the environment in .venv; a torch that is already importable is used as it is

# The last two steps pay once for what would make the first command slow: bytecode, and the merge's rewritten names.
# A torch that the user has (CUDA, ROCm) is seen through the environment and never replaced.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "error: $(PYTHON) is not Python 3.10 to 3.13; say make PYTHON=/path/to/python3.x" >&2; exit 2; }
	@if $(PYTHON) -c 'import torch' 2>/dev/null; \
	  then $(PYTHON) -m venv --system-site-packages $(VENV); \
	  else $(PYTHON) -m venv $(VENV); fi
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install -q -c requirements.lock torch
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/python -m pip install -q -c requirements.lock triton
	@$(BIN)/python -m pip install -q -c requirements.lock -e '.[test]'
	@$(BIN)/python -m compileall -q harness
	@for target in gfx950 sm_90 portable; do \
	  $(HARNESS) build --no-verify --target $$target --output $(VENV)/first_merge.py >/dev/null 2>&1 || true; done
	@touch $@

submit: $(READY) ## Merge the winners into submission.py, checked [TARGET=gfx950|sm_90|portable]
	@$(HARNESS) build --target $(TARGET)

candidates: $(READY) ## Write each submission of variants/candidates.toml to build/candidates, checked
	@$(HARNESS) candidates

eval: $(READY) ## Evaluate a file on this machine [FILE=… MODE=test|benchmark|leaderboard|profile SHAPES=…]
	@$(HARNESS) eval $(FILE) --mode $(MODE) $(if $(SHAPES),--shapes $(SHAPES))

check: $(READY) ## Both verdicts on a file, no timing [FILE=… SHAPES=…]
	@$(HARNESS) check $(or $(FILE),submission.py) $(if $(SHAPES),--shapes $(SHAPES))

ab: $(READY) ## Compare two variants on this machine's GPU [A=… B=… SHAPES=…]
	@$(HARNESS) ab $(A) $(B) $(if $(SHAPES),--shapes $(SHAPES))

peers: $(READY) ## Time public MLA kernels on the same inputs, where they are installed [FILE=… SHAPES=…]
	@$(BIN)/python -m bench.peers.run $(FILE) $(if $(SHAPES),--shapes $(SHAPES))

test: $(READY) ## Run the tests (no GPU needed)
	@$(BIN)/ruff check -q . && $(BIN)/ruff format -q --check .
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

test-gpu: $(READY) ## Run the tests that need a GPU
	@$(BIN)/python -m pytest -m gpu

pick: $(READY) ## Propose winners from the records [TARGET=…]
	@$(HARNESS) pick $(if $(findstring command,$(origin TARGET)),--target $(TARGET))

report: $(READY) ## The records as one HTML file, build/report.html
	@$(HARNESS) report

inspect: $(READY) ## What a file's kernels compile to, without the GPU [FILE=… TARGET=gfx950|sm_90 SHAPES=…]
	@$(HARNESS) inspect $(FILE) --target $(TARGET) $(if $(SHAPES),--shapes $(SHAPES))

lint: $(READY) ## The platform's source rules on submission.py and every variant
	@$(HARNESS) lint submission.py variants/*.py

clean: ## Remove the environment, builds and caches; records in .harness stay
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .harness/extensions
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
