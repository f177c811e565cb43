# make reproduce   set everything up, run the whole suite at a scale (SCALE=quick), and make its report
# make test        set everything up, run the linters and the whole test suite
# make install     only set up: .venv with every package at its pinned version
# make lock        pin the newest versions that pyproject.toml allows (for maintainers)
SCALE ?= quick
CORES ?= all
PYTHON ?= python3
# The interpreter itself, also when .venv is active or first on the path.
BASE := $(shell $(PYTHON) -c 'import sys; print(sys._base_executable)')
PINS := workflow/envs/requirements.txt
READY := .venv/ready
REPORT = results/$(SCALE)/report.html
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: reproduce test install lock
.DEFAULT_GOAL := reproduce

install: $(READY)

# pip works on the new environment from outside, so Debian's python3-venv is not needed.
$(READY): $(PINS)
	@$(BASE) -c 'import sys; v = sys.version_info[:2]; sys.exit(v != (3, 11) and f"Python 3.11 is needed, {sys.executable} is {v[0]}.{v[1]}; type: make PYTHON=/path/to/python3.11")'
	@$(BASE) -m pip --version > /dev/null || { echo "pip is needed; on Debian type: apt install python3-pip"; exit 1; }
	$(BASE) -m venv --without-pip --clear .venv
	$(BASE) -m pip --python .venv/bin/python install --disable-pip-version-check --progress-bar off -q -r $(PINS)
	@touch $@

reproduce: $(READY)
	snakemake --cores $(CORES) --config scale=$(SCALE)
	@if [ ! -e $(REPORT) ] || [ -n "$$(find figures/$(SCALE) results/$(SCALE)/tables -newer $(REPORT) -type f)" ]; then \
		snakemake --config scale=$(SCALE) --report $(REPORT); fi
	@echo
	@echo "report   $(REPORT)"
	@echo "tables   results/$(SCALE)/tables/"
	@echo "figures  figures/$(SCALE)/"

test: $(READY)
	ruff format --check .
	ruff check .
	snakefmt --check .
	python -m pytest

lock:
	$(BASE) workflow/scripts/lock.py
