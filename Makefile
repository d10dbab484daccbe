# Commands for a fresh clone. `make demo` and `make test` create the environment that they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: demo test smoke check format web browser bench bench-memory zoo fuzz coverage release compat walk docs clean

demo: $(VENV)/.core
	$(BIN)/mixlens demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist worksteal

# One test of each kind, to run while you work.
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

# Build the viewer from its source in web/. This needs Node. The package includes the built viewer.
web:
	cd web && npm install --no-audit --no-fund && npm run check && npm test && npm run build

# Install Debian's Chromium and axe-core for the browser tests, which are skipped without them.
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

# Fuzz each reader and the API for ten minutes. Atheris is not available on every platform.
fuzz: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet atheris || echo "No Atheris here: Hypothesis alone."
	$(BIN)/python -m tests.fuzz

# List the branches that no test runs. Commands that tests start count too.
coverage: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=json:build/coverage.json
	$(BIN)/python -m release.coverage build/coverage.json

# Build and check a release: two builds, an empty environment, types, a bill of materials.
release: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	$(BIN)/python -m release

# Run the conformance tests with the oldest and the newest supported versions: docs/support.md.
compat: $(VENV)/.ready
	$(BIN)/python -m release.compat

# Try the first steps of a new user in a fresh clone with a new environment.
walk: browser
	$(PYTHON) -m release.walk

docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m docs.check_site site

# Install the package without extras, which is enough for the demo.
$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# Install torchao in a separate folder. If transformers found it, every command would load it and print its warnings.
$(VENV)/.ready: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[eval,corpus,ray,plot,widget,web,dev]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps --upgrade --target $(VENV)/torchao torchao
	touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
