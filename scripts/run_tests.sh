#!/bin/sh
# Builds and runs the tests in each build that proves something (release, and those with label streams again under
# the stream checker, which must find nothing, with some steps of the demo; asan, everything; tsan, the
# tests with that label, built as where a CUDA toolkit has no nvcc; mpich, the tests with label smoke over a
# second MPI library, built as where there is no CUDA), then lint. The last line alone: `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.."
jobs=${JOBS:-2}
# Half of a test's time is waiting: for its own threads, for a time limit or for mpirun.
tests=$((2 * jobs))
# As the library sets it for itself; else each of hundreds of programs starts a pool that has nothing to do.
export OPENBLAS_NUM_THREADS=1
results=build/test-results
rm -rf "$results"
mkdir -p "$results"

# ThreadSanitizer of gcc 12 cannot live with much address randomisation.
fixed=""
setarch "$(uname -m)" -R true 2>/dev/null && fixed="setarch $(uname -m) -R"

# A step that is no ctest test, counted like one.
step() {
    name=$1
    shift
    echo "== $name"
    if "$@"; then
        echo "passed $name" >>"$results/steps"
    else
        echo "FAILED: $name" >&2
        echo "failed $name" >>"$results/steps"
        return 1
    fi
}

build() {
    log=$results/$1.log
    {
        cmake --preset "$1" -DHEADRACE_TESTS=ON -DHEADRACE_WERROR=ON &&
            cmake --build "build/$1" -j"$jobs" --target "$2"
    } >"$log" 2>&1 || { grep -vE '^\[ *[0-9]+%\]|^-- ' "$log"; return 1; }
}

run() {
    echo "== tests: $1"
    ${2:-} ctest --preset "$1" -j"$tests" --output-junit "$PWD/$results/$1.xml"
}

# Where the checker finds something the device fails, and so does the test.
checked() {
    echo "== tests: release, streams checked"
    HEADRACE_CHECK=streams ctest --preset release -j"$tests" \
        -L '^streams$' -R '^(unit|conform|train|reference)\.' --output-junit "$PWD/$results/checked.xml"
    step checked.demo env -u OPENBLAS_NUM_THREADS build/release/headrace train --check --steps 3 --out "$results/demo"
}

# The second MPI library, where both of its tools are.
smoke() {
    if ! command -v mpicc.mpich >/dev/null || ! command -v mpiexec.mpich >/dev/null; then
        echo "skipped build.mpich there is no mpicc.mpich or no mpiexec.mpich here" >>"$results/steps"
    elif step build.mpich build mpich mpi_smoke; then
        run mpich
    fi
}

if step build.release build release all; then
    run release
    checked
fi
step build.asan build asan all && run asan
step build.tsan build tsan tsan_tests && run tsan "$fixed"
smoke
step lint scripts/lint.sh

exec python3 scripts/sum_tests.py "$results"
