# `make run` and `make test` need Python 3.11 to 3.13, make and git, and nothing else.
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(p) 2>/dev/null),$(p))))
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Tests that launch kernels; the others would prove the same thing twice.
INTERPRETED := activation decode experts grouped_gemm grouped_wgrad mxfp4 mxfp8 routing training

.PHONY: help run test test-triton test-editors editors other-editors soak check format docs bench bench-tab agent-demo vscode neovim clean

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(BIN)/composer-lsp: pyproject.toml scripts/bootstrap.py
	$(PYTHON) scripts/bootstrap.py $(VENV)
	@touch $@

# What tests and checks need beside it, PyTorch and Triton among it.
$(VENV)/.dev: $(BIN)/composer-lsp
	$(PYTHON) scripts/bootstrap.py $(VENV) --dev
	@touch $@

run: $(BIN)/composer-lsp  ## Set up, fetch the default model, and see ghost text in the terminal
	$(BIN)/composer-lsp try --yes

test: $(VENV)/.dev  ## The whole suite that needs no editor and no root
	$(BIN)/composer-lsp model pull smollm2-135m
	$(BIN)/composer-lsp model pull qwen2.5-coder-0.5b
	$(PYTEST) -n 2 --dist loadgroup -m "not editor and not soak"

test-triton: $(VENV)/.dev  ## The kernels on the interpreter of a newer Triton than torch pins
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/triton triton==3.9.0
	PYTHONPATH=build/triton $(PYTEST) -n 2 $(addprefix tests/composer_kernels/test_,$(INTERPRETED:=.py))

editors: $(VENV)/.dev  ## Install the editors that the editor tests drive (Debian, root)
	bash scripts/editors/neovim.sh
	bash scripts/editors/vscode.sh

other-editors: $(VENV)/.dev
	bash scripts/editors/emacs.sh
	bash scripts/editors/helix.sh

test-editors: editors other-editors vscode  ## The end-to-end tests in real editors
	$(BIN)/composer-lsp model pull qwen2.5-coder-0.5b
	COMPOSER_REQUIRE_EDITORS=1 $(PYTEST) tests/editors -m "editor and not soak"

soak: $(VENV)/.dev  ## The full numbers: minutes long
	$(PYTEST) -m soak

check: $(VENV)/.dev  ## Lint, types, layering, generated documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright -p . --venvpath . --warnings
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python -m benchmarks.documents --check

format: $(VENV)/.dev  ## Format the Python code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## Regenerate the tables and the editors' settings schema
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python -m benchmarks.documents

bench: $(VENV)/.dev  ## Start-up, memory, latency, throughput, against named peers
	$(BIN)/python -m bench

bench-tab: $(VENV)/.dev  ## What Tab completes rightly and saves its user, beside peers: hours
	$(BIN)/composer-lsp model pull qwen2.5-coder-0.5b
	$(BIN)/composer-lsp model pull qwen2.5-coder-1.5b
	$(BIN)/python -m bench.tab infilling
	$(BIN)/python -m bench.tab judge
	$(BIN)/python -m bench.tab typing
	$(BIN)/python -m bench.tab repository

agent-demo: $(VENV)/.dev  ## Four requests to the agent on a real package, by the model of 1.5 billion parameters
	$(BIN)/composer-lsp model pull qwen2.5-coder-1.5b
	$(BIN)/python -m bench.agent_demo

vscode:  ## Package the VS Code extension as build/composer.vsix
	cd editor-clients/vscode && npm ci --no-audit --no-fund && npm run package

neovim:  ## Export the Neovim plugin's tree to build/composer.nvim
	bash scripts/export_neovim_plugin.sh build/composer.nvim

clean:  ## Remove what was built; models and editors stay in the user's cache
	rm -rf build dist $(VENV) editor-clients/vscode/{node_modules,out}
