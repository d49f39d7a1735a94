# All of these need Python 3.11 or newer and nothing else: the rest goes into .venv.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
ACCELERATORS = .venv-accelerators
NEWER ?= $(shell for p in python3.14 python3.13 python3.12 \
	$$(ls $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[2-9].*/bin/python 2>/dev/null | sort -rV); do \
	$$p -c '' 2>/dev/null && { echo $$p; break; }; done)
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))

.PHONY: study test test-all plain lint bench accelerators accelerators-smoke notebooks docs dist clean

study: $(VENV)/lab.stamp
	$(BIN)/jaxbandit run examples/cleaning.toml --out out/cleaning

# Tests marked slow compile or sample for long; test-all has them too, and is what CI runs.
test: $(VENV)/test.stamp lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow"

test-all: $(VENV)/test.stamp lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -r s

# The oracles of all families again, with programs as XLA would have them: without what jaxbandit.xla does.
PLAIN ?= tests/test_xla.py tests/test_*_policies.py
plain: $(VENV)/test.stamp
	JAXBANDIT_PLAIN=1 XLA_FLAGS= $(BIN)/python -m pytest -n $(JOBS) --dist loadfile -k "oracle or xla" $(PLAIN)

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

# Every policy compiled for an H100 and for a TPU v5e, on a machine that has neither; needs Python 3.12 or newer. Some of
# them: ONLY="cleaning/ee topk/sar". The new figures are in build/accelerators.json, the committed ones bound them.
accelerators: $(ACCELERATORS)/stamp
	$(ACCELERATORS)/bin/python -m benchmarks.ahead_of_time --out build/accelerators.json $(if $(ONLY),--only $(ONLY))

# Six of them, on a machine whose speed is not known: counts alone are held against the committed ones.
accelerators-smoke: $(ACCELERATORS)/stamp
	$(ACCELERATORS)/bin/python -m benchmarks.ahead_of_time --out build/accelerators.json --untimed --only \
		cleaning/ee cleaning/greedy cleaning/index outliers/nrr topk/uniform topk/trained

$(ACCELERATORS)/stamp: benchmarks/accelerators.txt
	@test -n "$(NEWER)" || { echo "this needs Python 3.12 or newer: make accelerators NEWER=/path/to/python3.12" >&2; exit 2; }
	$(NEWER) -m venv $(ACCELERATORS)
	$(ACCELERATORS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/accelerators.txt
	@touch $@

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
	rm -rf $(VENV) $(ACCELERATORS) out build dist
