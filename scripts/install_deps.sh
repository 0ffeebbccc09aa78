#!/bin/sh
# install_deps.sh demo|test: installs what is missing from the distribution (Debian 12 or a
# relative), and asks for no rights when nothing is. The demo needs no package of the tests.
set -eu

demo_packages="gcc libc6-dev make cmake pkg-config libopenblas-pthread-dev libjansson-dev
    libcairo2-dev libhwloc-dev fonts-dejavu-core"
test_packages="libcmocka-dev clang clang-format clang-tidy cppcheck libclang-rt-14-dev valgrind
    g++ python3 git"

case "${1:-}" in
demo) wanted=$demo_packages ;;
test) wanted="$demo_packages $test_packages" ;;
*)
    echo "usage: $0 demo|test" >&2
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
    libcmocka-dev) pkg-config --exists cmocka ;;
    fonts-dejavu-core | libclang-rt-14-dev) true ;; # nothing stops without them
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

missing=""
for package in $wanted; do
    present "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

refuse() {
    echo "install_deps.sh: $1" >&2
    echo "Please install these packages (names of Debian 12):$missing" >&2
    exit 1
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

echo "Installing:$missing"
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}
apt update || refuse "apt-get update failed."
# shellcheck disable=SC2086 # a list of words
apt install -y --no-install-recommends $missing || refuse "apt-get install failed."
