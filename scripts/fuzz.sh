#!/bin/sh
# Every parser under libFuzzer for FUZZ_SECONDS (default 30) each, from the seeds in fuzz/corpus/.
# What is found new stays in build/fuzz/corpus/; a crash stops, and says which input made it.
set -eu
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-30}
command -v clang >/dev/null || { echo "fuzz.sh: clang is missing: scripts/install_deps.sh test" >&2; exit 1; }

CC=clang cmake --preset fuzz
cmake --build build/fuzz -j"${JOBS:-2}" --target fuzzers
for program in build/fuzz/fuzz_*; do
    parser=${program##*/fuzz_}
    mkdir -p "build/fuzz/corpus/$parser"
    echo "== $parser"
    "$program" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix=build/fuzz/ \
        "build/fuzz/corpus/$parser" "fuzz/corpus/$parser"
done
