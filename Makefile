# Each target works as the first command on a fresh machine: it creates and reuses .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
# Modules are compiled when they are imported first: most never are, and compiling all takes minutes. Where Python may
# not keep what it compiles, every process would compile torch and PyG again, which takes it 20 seconds.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# uv installs the same packages in a third of the time. It does not read the settings of pip, so the index comes from
# there; where uv cannot be had, or does not find a package, pip installs.
INDEX = $${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}
INSTALL = index="$(INDEX)"; test -x $(BIN)/uv && $(BIN)/uv pip install --quiet --python $(BIN)/python \
	$${index:+--default-index "$$index"} --constraint constraints.txt --editable '.[all]' --group $(1) || $(PIP) --editable '.[all]' --group $(1)

.PHONY: help demo notebook kernels test lint docs licences release-check versions bench bench-gpu peers browser clean

help:
	@echo "make demo   the main job: distances and predictions for handwritten digits, into out/digits"
	@echo "make test   all tests"
	@echo "make lint   ruff and mypy"
	@echo "make docs   the site with its gallery, into docs/_build/html (GALLERY=0 runs no examples)"
	@echo "make release-check  wheel and sdist, used from an empty environment; make versions: with the oldest packages too"
	@echo "make licences  the licences of everything that is installed with lggd"
	@echo "make bench  speed beside other packages, into results/ (needs a C compiler)"
	@echo "make bench-gpu  speed on this machine's GPU, into results/"
	@echo "make peers  install those other packages, so that the tests use them too"
	@echo "make browser  install Chromium where that takes no questions (Debian, as root), so that the tests open pages"

.venv/installed: pyproject.toml constraints.txt
	@echo "Installing into .venv (once; takes a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --upgrade 'pip>=25.1' # the first with --group
	@$(PIP) torch # not by uv: a build of torch for this machine may come from a folder that only pip is told of
	@$(PIP) uv || echo "Without uv, pip installs the rest, which takes longer."
	@$(call INSTALL,dev)
	@touch $@

.venv/peers .venv/docs: .venv/installed
	@$(call INSTALL,$(@F))
	@touch $@

demo: .venv/installed
	@mkdir -p out
	$(BIN)/lggd run digits --out out/digits

# The notebook of docs/getting_started.py.
notebook: .venv/installed
	$(BIN)/python tools/notebook.py

# Before tests run on several processes, which would each compile the same kernels.
kernels: .venv/installed
	@echo "Compiling the kernels (once; takes a minute or two) ..."
	@$(BIN)/python tests/support/compile_kernels.py

# One process more than there are cores: some tests wait for a browser or for Ray. Files in the order of their names, which
# puts those between the others.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Files of tests lie in memory where it has room for them: whatever is written to last would wait for the disk.
MEMORY := $(shell test -w /dev/shm && test "$$(df -Pk /dev/shm | awk 'END { print $$4 }')" -gt 4000000 && echo /dev/shm)
test: kernels
	$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Warnings are errors: links and names that lead nowhere, too. Pages load nothing from elsewhere.
# All pages are made again: codeautolink would leave those without links that Sphinx only writes again.
GALLERY ?= 1
docs: .venv/docs
	@rm -rf docs/generated/api # pages of names that are gone
	$(BIN)/python -m sphinx -b html -W --keep-going --quiet --fresh-env -D plot_gallery=$(GALLERY) -c docs . docs/_build/html
	! grep -rlE '(<link[^>]* href|<(img|script)[^>]* src)="(https?:)?//' --include='*.html' docs/_build/html

# Of all that is installed, for users and for work on the package: another licence needs a person to look at it. Two packages of
# the site were: docutils is in part in the public domain, BSD and GPL, sphinx-codeautolink (MIT) does not state its licence.
PERMISSIVE := MIT;BSD;Apache;ISC;PSF;Python Software Foundation;Zlib;HPND;MPL;Mozilla;CC0
licences: .venv/installed
	$(BIN)/pip-licenses --from=mixed --partial-match --ignore-packages docutils sphinx-codeautolink \
		--allow-only='$(PERMISSIVE)' --fail-on='GPL;GNU;SSPL;BUSL'

release-check:
	$(PYTHON) tools/release_check.py

# The oldest packages that pyproject.toml allows, on the oldest Python; CI runs the newest ones.
OLDEST := torch==2.5.1 torch-geometric==2.6.0 numpy==1.26.0 scipy==1.13.0 numba==0.60.0 scikit-learn==1.5.0 \
	safetensors==0.4.3 joblib==1.4.0 networkx==3.2 typer==0.19.0 rich==13.7.0 fastapi==0.115.0 uvicorn==0.30.0
versions:
	python3.11 tools/release_check.py $(OLDEST)
	for python in python3.12 python3.13 python3.14; do \
		! command -v $$python >/dev/null || $$python tools/release_check.py || exit 1; done

peers: .venv/peers

browser:
	@command -v chromium-headless-shell >/dev/null || \
		(apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell)

# Each table in a process of its own: memory that one has freed makes rivals in the next twice as fast.
bench: .venv/peers
	for table in steady right_hand_side evolution memory learning many growth arrival; do \
		$(BIN)/python -m benchmarks $$table || exit 1; done

bench-gpu: .venv/installed
	$(BIN)/python -m benchmarks --device cuda

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/generated docs/gallery
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
