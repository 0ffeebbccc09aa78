# Thin: a name for each thing that CMake and scripts/ do. JOBS=n for more cores.
JOBS ?= 2
PREFIX ?= /usr/local
DESTDIR ?=
export JOBS DESTDIR

R = build/release
BUILD = cmake --build $(R) -j$(JOBS) --target
# Without the tests: what only they need may be absent.
PLAIN = cmake --preset release -DHEADRACE_TESTS=OFF
WITH_TESTS = cmake --preset release -DHEADRACE_TESTS=ON

.PHONY: all demo test conformance soak soak-kills bench bench-growth fuzz format lint install clean

all:
	$(PLAIN)
	$(BUILD) all

demo:
	$(PLAIN)
	$(BUILD) headrace
	$(R)/headrace train --out build/demo

test:
	@scripts/run_tests.sh

# HEADRACE_CONFORMANCE=dir runs the recordings of that folder.
conformance:
	@$(WITH_TESTS)
	@$(BUILD) conform_megatron conform_schedules
	@scripts/run_conformance.sh $(R)/tests/conform/conform_megatron $(R)/tests/conform/conform_schedules

# All combinations of options; EVERY=n takes every n-th.
soak:
	@$(WITH_TESTS)
	@$(BUILD) soak
	nice $(R)/tests/train/soak $(EVERY)
	nice $(R)/tests/unit/test_unit_checkpoint_kills 1

# Runs under mpirun, killed at random and taken up again; KILLS=n, SEED=n.
soak-kills:
	@$(WITH_TESTS)
	@$(BUILD) soak_kills

bench:
	$(PLAIN)
	$(BUILD) bench

# Over two hosts in network namespaces of this machine: as root.
bench-net:
	$(PLAIN)
	$(BUILD) headrace
	python3 bench/run.py $(R)/headrace build/bench.json net

# Time and memory of 1 to 16 ranks, and of the simulator to 4,096.
bench-growth:
	$(PLAIN)
	$(BUILD) bench_growth_tables

fuzz:
	@scripts/fuzz.sh

lint:
	@scripts/lint.sh

format:
	find include src app tests bench fuzz examples -name '*.[ch]' | xargs clang-format -i

install:
	$(PLAIN)
	$(BUILD) headrace headrace_shared headrace_static
	cmake --install $(R) --prefix $(PREFIX)

clean:
	rm -rf build
