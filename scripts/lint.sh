#!/bin/sh
# Formatting, clang's warnings, clang-tidy and cppcheck over everything; any finding fails.
set -u
cd "$(dirname "$0")/.."
JOBS=${JOBS:-2}
export JOBS
status=0

check() {
    echo "-- $1"
    shift
    "$@" || status=1
}

format() {
    find include src app tests bench fuzz examples \( -name '*.c' -o -name '*.h' \) -print0 |
        xargs -0 clang-format --dry-run -Werror
}

# Everything; but where the build has no headers of CUDA, and of NVTX, what needs them cannot be read.
sources() {
    if grep -q '/src/device/cuda/' build/release/compile_commands.json; then
        find src app -name '*.c'
    else
        sed -n "s|^ *\"file\": \"$PWD/\(.*\.c\)\".*|\1|p" build/release/compile_commands.json |
            grep -E '^(src|app)/' | sort -u
    fi
}

# Its count of suppressed warnings goes to standard error, findings go to standard output.
tidy() {
    sources | xargs -P "$JOBS" -n 4 clang-tidy --quiet -p build/release 2>build/tidy.log ||
        { grep -v ' warnings\{0,1\} generated' build/tidy.log; return 1; }
}

static() {
    cppcheck --quiet -j "$JOBS" --std=c11 --error-exitcode=1 --inline-suppr \
        --enable=warning,performance,portability --suppress=missingIncludeSystem \
        --suppress=duplicateAssignExpression \
        -I include -I src -I app -D_GNU_SOURCE src app
}

mkdir -p build
cmake --preset release -DHEADRACE_TESTS=ON >build/lint.configure 2>&1 ||
    { cat build/lint.configure; exit 1; }
check clang-format format
check clang scripts/clang_check.py build/release/compile_commands.json
check clang-tidy tidy
check cppcheck static
exit $status
