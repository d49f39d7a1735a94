# All of these need Python 3.11 or newer and nothing else: the rest goes into .venv.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))

.PHONY: study test lint bench notebooks docs dist clean

study: $(VENV)/lab.stamp
	$(BIN)/jaxbandit run examples/cleaning.toml --out out/cleaning

test: $(VENV)/test.stamp lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/prose.py

# Opens JupyterLab on the notebooks, with a kernel that has jaxbandit. As root, in a container: LAB=--allow-root.
notebooks: $(VENV)/notebooks.stamp
	$(BIN)/jupyter lab $(LAB) notebooks

# The site, in build/docs/index.html. Notebooks are run once and kept in build/notebooks; DOCS=-Dnb_execution_mode=off leaves
# them unrun.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -q -j auto $(DOCS) -b html -d build/doctrees docs build/docs
	@echo "the site is in build/docs/index.html"

# The wheel and the sdist, each tried in fresh environments on every Python that is there. On some: DIST_PYTHONS="python3.13".
dist:
	.ci/dist $(DIST_PYTHONS)

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks.run --out benchmarks/results

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/lab.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lab]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/lab.stamp

$(VENV)/lint.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lint]'
	@touch $@ $(VENV)/lab.stamp $(VENV)/test.stamp

$(VENV)/bench.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

$(VENV)/notebooks.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[notebooks]'
	@touch $@ $(VENV)/lab.stamp

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@ $(VENV)/lab.stamp

clean:
	rm -rf $(VENV) out build dist
