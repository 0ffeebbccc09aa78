#!/bin/sh
# run_conformance.sh PROGRAM...: runs the programs that hold recordings against the library and adds
# up what they say: a line a file, then one line `N passed, N failed` for all. Fails on any difference,
# on a program that ends without its count, and where no case was run. HEADRACE_CONFORMANCE names the
# folder of the recordings; files that are not in it are skipped.
set -u
passed=0
failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for program in "$@"; do
    "$program" >"$out"
    status=$?
    sed '$d' "$out"
    # The count is the last line; it is printed once, below.
    counts=$(tail -n 1 "$out" | sed -n 's/^\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p')
    if [ -z "$counts" ]; then
        tail -n 1 "$out"
        echo "${program##*/}: ended with status $status and no count" >&2
        failed=$((failed + 1))
        continue
    fi
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    # A program whose files are all absent fails by itself, which is right only if no other ran.
    if [ "$status" -ne 0 ] && [ "$status" -ne 1 ]; then
        echo "${program##*/}: ended with status $status" >&2
        failed=$((failed + 1))
    fi
done
[ $((passed + failed)) -gt 0 ] || echo "no case was run" >&2
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
