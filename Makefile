# Everything that a clone needs is made by these targets; `make demo` and `make test` work from an empty folder.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: demo test smoke check format web browser bench bench-memory zoo fuzz coverage release compat walk docs clean

demo: $(VENV)/.core
	$(BIN)/mixlens demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist worksteal

# One test of each kind, for the loop while working.
smoke: $(VENV)/.ready
	$(BIN)/python -m pytest -m smoke

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m release.audit

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The viewer that ships with the package, from its source in web/. Needs Node; users do not.
web:
	cd web && npm install --no-audit --no-fund && npm run check && npm test && npm run build

# Debian's Chromium and axe-core, for the tests that open pages. Without them they skip and say why.
browser:
	@command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium fonts-noto-core \
	  || echo "No Chromium: apt-get installs it on Debian, as root. The browser tests will skip."
	@test -d web/node_modules/axe-core || (cd web && npm install --no-audit --no-fund) \
	  || echo "No axe-core: npm fetches it. The accessibility tests will skip."

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks.cpu
	$(BIN)/python -m benchmarks.growth

bench-memory: $(VENV)/.ready
	$(BIN)/python -m benchmarks.memory

zoo: $(VENV)/.ready
	$(BIN)/python -m tests.zoo.run
	$(BIN)/python -m tests.zoo.run --table

# Ten minutes for each reader and for the front door. Atheris is not to be had everywhere.
fuzz: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet atheris || echo "No Atheris here: Hypothesis alone."
	$(BIN)/python -m tests.fuzz

# Which branches of the package no test runs. Commands that tests start are counted too.
coverage: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=json:build/coverage.json
	$(BIN)/python -m release.coverage build/coverage.json

# Everything before a release: builds, an empty environment, types, a bill of materials.
release: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	$(BIN)/python -m release

# Environments at the ends of the declared ranges, each with the conformance suite: docs/support.md.
compat: $(VENV)/.ready
	$(BIN)/python -m release.compat

# A newcomer's walk: a fresh clone, an environment of its own, the first pages, the browser.
walk: browser
	$(PYTHON) -m release.walk

docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m docs.check_site site

# The package without its extras: enough for the demo.
$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# torchao lies in a folder of its own: where transformers finds it, every command loads it and prints its warnings.
$(VENV)/.ready: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[eval,corpus,ray,plot,widget,web,dev]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps --upgrade --target $(VENV)/torchao torchao
	touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
