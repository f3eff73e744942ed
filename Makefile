# Two commands do all: `make demo` and `make test`. Everything runs in .venv, made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OMP_WAIT_POLICY ?= passive

.PHONY: demo demo-quick demo-worlds test test-fast lint format bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -U pip -c constraints.txt
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## Go2: train, deploy on a nasty stand-in, identify, retrain, deploy again, about 10 minutes: out/demo/report.html
	$(BIN)/surefoot loop --robot go2 --hardware twin:go2/13-hard-luck --out out/demo

demo-quick: $(STAMP)  ## the same with a swing-up, under two minutes: out/quick/report.html
	$(BIN)/surefoot loop --robot qube --hardware twin:qube/06-nasty --out out/quick --quick

demo-worlds: $(STAMP)  ## 64 randomized quadrupeds, one recorded, replayed under another e: out/worlds/report.html
	$(BIN)/surefoot demo --out out/worlds

test: $(STAMP)  ## everything, at most 15 minutes on two cores
	$(BIN)/pytest -n 2 --dist worksteal

test-fast: $(STAMP)  ## without the slow tests, at most 2 minutes
	$(BIN)/pytest -n 2 --dist worksteal -m 'not slow'

lint: $(STAMP)
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/pyright src

format: $(STAMP)
	$(BIN)/ruff format src tests benchmarks examples
	$(BIN)/ruff check --fix src tests benchmarks examples

bench: $(STAMP)
	$(BIN)/surefoot bench all --write

clean:
	rm -rf $(VENV) out build *.egg-info .pytest_cache .ruff_cache
