#!/bin/sh
# nvcc_fatbin.sh NVCC BIN2C OUT NAME FILE FLAGS... -- ARCHS...: compiles a .cu file to a fatbin and writes it as
# a C array, `const unsigned long long hr__fatbin_NAME[]`; OUT.d says what it depends on. Warnings fail, and so do registers
# that spill: no kernel is allowed any.
set -eu
nvcc=$1 bin2c=$2 out=$3 name=$4 file=$5
shift 5
flags=""
while [ "$1" != "--" ]; do
    flags="$flags $1"
    shift
done
shift
for arch in "$@"; do
    case $arch in
    p*) flags="$flags -gencode arch=compute_${arch#p},code=compute_${arch#p}" ;;
    *) flags="$flags -gencode arch=compute_$arch,code=sm_$arch" ;;
    esac
done

fatbin=$out.fatbin
trap 'rm -f "$fatbin" "$out.log"' EXIT
# shellcheck disable=SC2086 # flags are words
"$nvcc" -fatbin -std=c++17 -O3 -Werror all-warnings -Xptxas -v $flags -MD -MF "$out.d" -MT "$out" \
    "$file" -o "$fatbin" >"$out.log" 2>&1 || { cat "$out.log" >&2; exit 1; }
if grep -E '(^|[^0-9])[1-9][0-9]* bytes spill' "$out.log" >&2; then
    echo "$file: registers spill, as above" >&2
    exit 1
fi
{
    echo "/* Made from $(basename "$file"). */"
    echo "extern const unsigned long long hr__fatbin_$name[];"
    "$bin2c" --const --type longlong --name "hr__fatbin_$name" "$fatbin"
} >"$out.part"
mv "$out.part" "$out"
