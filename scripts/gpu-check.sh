#!/bin/sh
# Checks and measures Headrace on a GPU, in less than ten minutes: builds, trains on host and GPU and compares, runs
# the suites that can run there, and measures nodes, launches, overlap, tokens a second beside PyTorch. Prints
# a table; writes gpu-check.json, gpu-check.log and build.log. Installs nothing and needs no network.
#
#     scripts/gpu-check.sh [--out DIR] [--parts NAME,NAME] [--limit SECONDS] [--on-double]
#         [--built DIR]    what has been built there, instead of building
#     scripts/gpu-check.sh --pack FILE.tar.gz
#         builds, and packs what a machine without compilers or libraries needs: there unpack it and run
#         gpu-check/scripts/gpu-check.sh. Its C library must not be older than the one here.
#
# 0: all passed. 1: something failed. 2: there is no GPU, or a test double that was not asked for. 64: usage.
set -u
began=$(date +%s)
start=$PWD
cd "$(dirname "$0")/.." || exit 1
out=$PWD/build/gpu-check built="" pack="" on_double=""
BUILD_LIMIT_S=120
export PYTHONDONTWRITEBYTECODE=1

usage() {
    sed -n 's/^# \{0,1\}//; 2,12p' "$0" >&2
    exit 64
}

fail() {
    echo "gpu-check.sh: $1" >&2
    exit 1
}

# A path of the command line, seen from here.
path() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$start/$1" ;;
    esac
}

# What is passed on is kept as words in "$@": an option of ours is taken off, others move to the end.
n=$#
while [ "$n" -gt 0 ]; do
    word=$1
    shift
    n=$((n - 1))
    case $word in
    --out | --built | --pack | --parts | --limit)
        [ "$n" -gt 0 ] || usage
        case $word in
        --out) out=$(path "$1") ;;
        --built) built=$(path "$1") ;;
        --pack) pack=$(path "$1") ;;
        *) set -- "$@" "$word" "$1" ;;
        esac
        shift
        n=$((n - 1))
        ;;
    --on-double)
        on_double=yes
        set -- "$@" "$word"
        ;;
    *) usage ;;
    esac
done
command -v python3 >/dev/null 2>&1 || fail "there is no python3 here."
[ -n "$built$pack" ] || [ ! -x built/headrace ] || built=$PWD/built # unpacked from --pack

check() {
    python3 bench/gpu_check.py --built "$built" --out "$out" --began "$began" "$@"
}

# ---- building ---------------------------------------------------------------------------------
missing() {
    for tool in cmake pkg-config cc nvcc; do
        command -v $tool >/dev/null 2>&1 || printf ' %s' $tool
    done
    for library in openblas hwloc jansson cairo; do
        pkg-config --exists $library 2>/dev/null || printf ' %s' $library
    done
}

has_cmocka() {
    printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h cmocka.h | cc -E - >/dev/null 2>&1
}

# Within what is left of the time for building; all that it says is in the log.
timed() {
    left=$((BUILD_LIMIT_S - $(date +%s) + began))
    [ "$left" -gt 0 ] && timeout -k 5 "$left" "$@" >>"$out/build.log" 2>&1
}

built_or() {
    status=$?
    tail -n 20 "$out/build.log" >&2
    [ $status -ne 124 ] && [ "$left" -gt 0 ] ||
        echo "gpu-check.sh: building took more than $BUILD_LIMIT_S s; started again it goes on from there." >&2
    echo "gpu-check.sh: $1 (all of it: $out/build.log)" >&2
}

configure() {
    generator="" keep_going="-k"
    command -v make >/dev/null 2>&1 || generator="-G Ninja" keep_going="-k 0"
    # shellcheck disable=SC2086 # two words or none
    timed cmake -S . -B "$built" $generator -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O3 -g -DNDEBUG" \
        -DHEADRACE_CUDA=ON -DHEADRACE_MPI=OFF -DHEADRACE_TESTS="$1"
}

targets() {
    if [ "$tests" = ON ]; then
        check --targets
        [ -z "$on_double" ] || echo cudart_double cublas_double
        [ -z "$on_double" ] || [ ! -d "$built/tests/doubles/nccl" ] || echo nccl_double
    else
        check --targets | tr ' ' '\n' | grep -vE '^(test|conform)_'
    fi
}

compile() {
    # shellcheck disable=SC2068 # words
    timed cmake --build "$built" -j"$(nproc)" --target $@
}

build() {
    built=$PWD/build/gpu
    PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
    nvcc=$(command -v nvcc) && [ -z "${CUDA_HOME:-}" ] && export CUDA_HOME="${nvcc%/bin/nvcc}"
    absent=$(missing)
    [ -z "$absent" ] ||
        fail "not here, and wanted for building:$absent. Build elsewhere with --pack, and bring the file."
    tests=ON
    has_cmocka || tests=OFF
    echo "building in $built ($(nproc) at a time, at most $BUILD_LIMIT_S s, log in $out/build.log)"
    : >"$out/build.log"
    configure $tests || { built_or "cmake failed."; exit 1; }
    compile headrace || { built_or "building failed."; exit 1; }
    [ -n "$pack$on_double" ] || check --probe || exit
    # What could not be built fails by its own row.
    # shellcheck disable=SC2046,SC2086 # words
    compile $(targets) -- $keep_going || built_or "not all could be built."
}

# ---- packing ----------------------------------------------------------------------------------
# Libraries that programs need, but for those of the C library and the compiler, which are everywhere.
libraries() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux)'
}

pack() {
    stage=$(mktemp -d) || exit 1
    trap 'rm -rf "$stage"' EXIT
    to=$stage/gpu-check
    mkdir -p "$to/built/bench" "$to/built/tests/unit" "$to/built/tests/conform" "$to/built/lib" \
        "$to/scripts" "$to/bench" "$to/tests/conform/data"
    for program in headrace bench/bench_node_speed bench/bench_gpu_launches bench/bench_gpu_overlap \
        "$built"/tests/unit/test_unit_* "$built"/tests/conform/conform_megatron; do
        program=${program#"$built"/}
        [ ! -x "$built/$program" ] || strip -o "$to/built/$program" "$built/$program" || exit 1
    done
    for library in $(libraries "$to/built/headrace" "$to"/built/tests/unit/*); do
        cp -L "$library" "$to/built/lib/" || exit 1
    done
    cp bench/*.py "$to/bench/" && cp scripts/gpu-check.sh "$to/scripts/" && cp LICENSE "$to/" &&
        cp -r tests/conform/data/megatron "$to/tests/conform/data/" || exit 1
    git describe --always --dirty --abbrev=40 >"$to/built/revision" 2>/dev/null || echo unknown >"$to/built/revision"
    tar -C "$stage" -czf "$pack" gpu-check || exit 1
    echo "packed: $pack ($(du -h "$pack" | cut -f1))"
}

[ -z "$pack" ] || BUILD_LIMIT_S=3600
mkdir -p "$out" || exit 1
[ -n "$built" ] || build
if [ -n "$pack" ]; then
    pack
else
    exec python3 bench/gpu_check.py --built "$built" --out "$out" --began "$began" "$@"
fi
