#!/bin/sh
# All tests from nothing: installs what is missing, then `make test`.
set -eu
cd "$(dirname "$0")"
scripts/install_deps.sh test
exec make test
