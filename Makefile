# Everything a newcomer needs: `make demo`, `make test`. Both set up .venv by themselves, once.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := cli,apps,security,nats,trace,spark,dev

SWARM_SEEDS ?= 0:10000
SWARM_FILE ?= .swarm/campaign.jsonl

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test clusters lint bench swarm pin clean

help: ## Say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP) ## Create .venv and install Antiphon into it
	@:

# Remade only when the dependencies change; an editable install follows the sources by itself.
$(STAMP): pyproject.toml constraints.txt
	@$(find_python); \
	if [ ! -x $(BIN)/python ] || ! $(BIN)/python -c '$(is_suitable)' 2>/dev/null; then \
		if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
			echo "$$python has no venv module: install it (Debian and Ubuntu: apt install python3-venv) and run make again" >&2; exit 1; \
		fi; \
		"$$python" -m venv --clear $(VENV); \
	fi
	@echo "installing Antiphon into $(VENV) (a minute)"
	@$(BIN)/python -m pip install --quiet --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@$(find_java)
	@touch $@
	@echo "ready: $(BIN)/antiphon is the command"

demo: setup ## Run the demo (a minute or two) and write antiphon-demo/report.html and proof.html
	@$(BIN)/antiphon demo

test: lint ## Lint, check types and run every test (about twenty-five minutes)
	$(BIN)/python -m pytest -n auto --dist worksteal

clusters: setup ## Run every job on a cluster, by spark-submit and through Spark Connect (five minutes)
	ANTIPHON_SLOW=1 $(BIN)/python -m pytest tests/spark/test_clusters.py

lint: setup ## Lint and check types
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/mypy

bench: setup ## Measure the core on this machine
	@$(BIN)/antiphon bench core

swarm: setup ## Run 10,000 seeds over every order, multicast and fault; interrupt and repeat to go on
	@mkdir -p $(dir $(SWARM_FILE))
	@$(BIN)/antiphon sim swarm --seeds $(SWARM_SEEDS) --resume $(SWARM_FILE)

pin: ## Write constraints.txt anew: what a fresh environment installs today
	@set -e; $(find_python); fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	"$$python" -m venv "$$fresh"; \
	"$$fresh/bin/python" -m pip install --quiet --quiet '.[$(EXTRAS)]'; \
	{ echo "# What make setup installs, pinned. Written by make pin; do not edit."; \
	  "$$fresh/bin/python" -m pip freeze --exclude antiphon; } > constraints.txt
	@echo "constraints.txt written: run make test before you commit it"

clean: ## Remove .venv and everything that was made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis antiphon-demo

is_suitable := import sys; sys.exit(sys.version_info < (3, 11))

# Sets $$python to the first interpreter that is there, runs (version managers leave names that do not) and is new enough.
define find_python
python=""; \
for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	if command -v "$$candidate" >/dev/null 2>&1 && "$$candidate" -c '$(is_suitable)' 2>/dev/null; then python="$$candidate"; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "Antiphon needs Python 3.11 or newer and found none: install one, or name it with make PYTHON=/path/to/python3" >&2; exit 1; \
fi
endef

# Spark runs on Java 17 or newer: the one that is there, else Debian's or Ubuntu's where we may install it, else a sentence. Nothing else needs it.
define find_java
if ! { [ -x "$$JAVA_HOME/bin/java" ] || command -v java >/dev/null 2>&1; }; then \
	as_root=""; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
	if command -v apt-get >/dev/null 2>&1 && $$as_root true 2>/dev/null; then \
		echo "installing Java for Spark"; \
		$$as_root apt-get install -y -qq openjdk-17-jre-headless >/dev/null 2>&1 \
		|| { $$as_root apt-get update -qq && $$as_root apt-get install -y -qq openjdk-17-jre-headless; } >/dev/null 2>&1 \
		|| $$as_root apt-get install -y -qq default-jre-headless >/dev/null 2>&1 || true; \
	fi; \
	command -v java >/dev/null 2>&1 \
	|| echo "the pipeline needs Java 17 and found none: install it (Debian and Ubuntu: sudo apt install openjdk-17-jre-headless); all else works without"; \
fi
endef
