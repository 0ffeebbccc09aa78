#!/bin/sh
# The demo from nothing: installs what is missing, builds, trains, draws into build/demo/.
set -eu
cd "$(dirname "$0")"
scripts/install_deps.sh demo
exec make demo
