#!/bin/sh
# install_deps.sh demo|test|bench: installs what is missing from the distribution (Debian 12 or
# a relative), and asks for no rights when nothing is. The demo needs no package of the tests.
# `bench` adds what the benchmarks compare with, as far as it can be had: a peer that cannot is
# skipped with the reason, and `make bench` runs without it.
set -eu

demo_packages="gcc libc6-dev make cmake pkg-config libopenblas-pthread-dev libjansson-dev
    libcairo2-dev libhwloc-dev fonts-dejavu-core"
test_packages="libcmocka-dev clang clang-format clang-tidy cppcheck libclang-rt-14-dev valgrind
    g++ python3 git libdlpack-dev libopenmpi-dev openmpi-bin
    libmpich-dev mpich iproute2 nftables"
peer_packages="python3-torch python3-pip libopenblas0-openmp libstarpu-dev pocl-opencl-icd
    ocl-icd-opencl-dev opencl-headers"

peers=""
case "${1:-}" in
demo) wanted=$demo_packages ;;
test) wanted="$demo_packages $test_packages" ;;
bench)
    wanted="$demo_packages python3"
    peers=$peer_packages
    ;;
*)
    echo "usage: $0 demo|test|bench" >&2
    exit 2
    ;;
esac

# Without dpkg: does what the package is wanted for work?
works() {
    case "$1" in
    libc6-dev) echo '#include <stdio.h>' | gcc -E - ;;
    libopenblas-pthread-dev) pkg-config --exists openblas ;;
    libjansson-dev) pkg-config --exists jansson ;;
    libcairo2-dev) pkg-config --exists cairo ;;
    libhwloc-dev) pkg-config --exists hwloc ;;
    libopenmpi-dev) command -v mpicc ;;
    openmpi-bin) command -v mpirun ;;
    libmpich-dev | mpich) true ;; # a second MPI, whose smoke test is skipped without
    iproute2 | nftables) true ;; # so are the tests over a network
    libcmocka-dev) pkg-config --exists cmocka ;;
    fonts-dejavu-core | libclang-rt-14-dev | libdlpack-dev) true ;; # nothing stops without them
    libstarpu-dev) pkg-config --exists starpu-1.3 ;;
    pocl-opencl-icd) test -e /etc/OpenCL/vendors/pocl.icd ;;
    ocl-icd-opencl-dev) pkg-config --exists OpenCL ;;
    opencl-headers) echo '#include <CL/cl.h>' | gcc -E - ;;
    python3-torch) /usr/bin/python3 -c 'import torch' ;;
    python3-pip) python3 -m pip --version ;;
    libopenblas0-openmp) true ;; # PyTorch is slower without
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

present() {
    if command -v dpkg-query >/dev/null 2>&1; then
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
    else
        works "$1"
    fi
}

missing_of() {
    for package in "$@"; do
        present "$package" || printf ' %s' "$package"
    done
}

# The distribution's PyTorch is older than its pipelining, so the Python files of a newer one are
# taken out of the smallest wheel of that release; its compiled part is not wanted.
pipelining_files() {
    files="$(dirname "$0")/../build/peers/pipelining"
    [ ! -e "$files/schedules.py" ] || return 0
    wheel=$(mktemp -d)
    python3 -m pip download --quiet --no-deps --only-binary=:all: --platform macosx_11_0_arm64 \
        --python-version 3.11 --dest "$wheel" torch==2.8.0 >/dev/null 2>&1 &&
        mkdir -p "$files" && python3 - "$wheel" "$files" <<'END' ||
import glob, os, sys, zipfile
wheel, files = sys.argv[1:]
with zipfile.ZipFile(glob.glob(wheel + "/*.whl")[0]) as z:
    for name in z.namelist():
        if os.path.dirname(name) == "torch/distributed/pipelining" and name.endswith(".py"):
            with open(os.path.join(files, os.path.basename(name)), "wb") as f:
                f.write(z.read(name))
END
        echo "install_deps.sh: PyTorch's pipelining is skipped: pip could not get it." >&2
    rm -rf "$wheel"
}

# What pip gets comes last, since pip is a package itself; for the benchmarks only.
finish() {
    [ -z "$peers" ] || pipelining_files
    exit 0
}

# shellcheck disable=SC2086 # a list of words
missing=$(missing_of $wanted)
# shellcheck disable=SC2086
missing_peers=$(missing_of $peers)
[ -n "$missing$missing_peers" ] || finish

# Without what is needed it ends; without a peer it does not.
refuse() {
    echo "install_deps.sh: $1" >&2
    if [ -n "$missing" ]; then
        echo "Please install these packages (names of Debian 12):$missing" >&2
        exit 1
    fi
    echo "Benchmarks will run without these peers:$missing_peers" >&2
    finish
}

command -v apt-get >/dev/null 2>&1 || refuse "there is no apt-get here."
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
    [ -t 0 ] || as_root="sudo -n" # nobody there to type a password
else
    refuse "installing wants root, and there is no sudo."
fi

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}
apt update || refuse "apt-get update failed."
if [ -n "$missing" ]; then
    echo "Installing:$missing"
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $missing || refuse "apt-get install failed."
fi
# One by one: a peer that cannot be had takes no other with it.
for package in $missing_peers; do
    echo "Installing a peer: $package"
    apt install -y --no-install-recommends "$package" ||
        echo "install_deps.sh: $package is skipped: apt-get could not install it." >&2
done
finish
