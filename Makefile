# `make help` lists what there is to make. SCALE, CORES and VERBOSE=1 (all of Snakemake's text) may be given.
SCALE ?= quick
CORES ?= all
PYTHON ?= python3
# The interpreter itself, also when .venv is active or first on the path.
BASE := $(shell $(PYTHON) -c 'import sys; print(sys._base_executable)')
PINS := workflow/envs/requirements.txt
READY := .venv/ready
# A figure states its name in its module, where the module's own name will not do.
FIGURES = $(sort $(foreach file,$(wildcard bench/studies/*/figures/[a-zA-Z]*.py),$(call name,$(file))))
name = $(or $(shell sed -n 's/^NAME = "\(.*\)"/\1/p' $(1)),$(subst _,-,$(basename $(notdir $(1)))))
RUN = python -m bench reproduce --scale $(SCALE) --cores $(CORES) $(if $(VERBOSE),--verbose)
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: reproduce figure check test lint install lock help
.DEFAULT_GOAL := reproduce

install: $(READY) ## only set up: .venv with every package at its pinned version

# pip works on the new environment from outside, so Debian's python3-venv is not needed.
$(READY): $(PINS)
	@$(BASE) -c 'import sys; v = sys.version_info[:2]; sys.exit(v != (3, 11) and f"Python 3.11 is needed, {sys.executable} is {v[0]}.{v[1]}; type: make PYTHON=/path/to/python3.11")'
	@$(BASE) -m pip --version > /dev/null || { echo "pip is needed; on Debian type: apt install python3-pip"; exit 1; }
	$(BASE) -m venv --without-pip --clear .venv
	$(BASE) -m pip --python .venv/bin/python install --disable-pip-version-check --progress-bar off -q -r $(PINS)
	@touch $@

reproduce: $(READY) ## run the whole suite at a scale (SCALE=quick), watch it, make its report, say the verdicts
	$(RUN)

figure: $(if $(FIG),$(READY)) ## draw one figure and make what it needs: make figure FIG=thesis-2.1b SCALE=cpu
	$(if $(filter $(FIGURES),$(FIG)),,$(error FIG=$(FIG): type make figure FIG=NAME, where NAME is one of: $(FIGURES)))
	$(RUN) $(FIG)

check: lint ## the linters and the everyday tests, about a minute
	python -m pytest -n 2 --dist loadfile -m "not slow"

test: lint ## the linters and every test, about eight minutes
	python -m pytest -n 2 --dist loadfile

lint: $(READY)
	ruff format --check .
	ruff check .
	snakefmt --check .

lock: ## pin the newest versions that pyproject.toml allows (for maintainers)
	$(BASE) workflow/scripts/lock.py

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
	@echo "SCALE=quick, cpu, paper or a YAML file; CORES=how many; VERBOSE=1 shows all that Snakemake says"
