# use_installed.sh BUILD: installs into a temporary folder, and builds and runs a program against
# that copy by pkg-config and by CMake, shared and static, in C and in C++17. Also looks at what the
# library shows.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# By DESTDIR, and then moved: nothing may remember where it was staged.
DESTDIR="$place/stage" cmake --install "$build" --prefix /opt/headrace >"$place/log"
mv "$place/stage/opt/headrace" "$place/copy"
lib=$(dirname "$(find "$place/copy" -name libheadrace.a)")

say() {
    echo "use_installed.sh: $1"
}

says_hello() {
    said=$("$@")
    case "$said" in
    "headrace "*": OK") say "$1: $said" ;;
    *) say "$1 said '$said'" && exit 1 ;;
    esac
}

export PKG_CONFIG_PATH="$lib/pkgconfig"
flags=$(pkg-config --cflags --libs headrace)
cc -std=c11 -Wall -Wextra -Werror "$here/user/ten_lines.c" -o "$place/by_pkg_config" $flags
LD_LIBRARY_PATH="$lib" says_hello "$place/by_pkg_config"

cc -std=c11 "$here/user/ten_lines.c" -o "$place/by_archive" $(pkg-config --cflags headrace) \
    "$lib/libheadrace.a" $(pkg-config --libs --static headrace | sed 's/-lheadrace//g')
says_hello "$place/by_archive"

cxx=$(command -v c++ || true)
if [ -n "$cxx" ]; then
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "$here/user/from_cpp.cpp" \
        -o "$place/cpp_by_pkg_config" $flags
    LD_LIBRARY_PATH="$lib" says_hello "$place/cpp_by_pkg_config"
else
    say "no C++ compiler: its part is left out"
fi

cmake -S "$here/user" -B "$place/user" -DCMAKE_PREFIX_PATH="$place/copy" >>"$place/log" 2>&1 ||
    { cat "$place/log" && exit 1; }
cmake --build "$place/user" >>"$place/log" 2>&1 || { cat "$place/log" && exit 1; }
says_hello "$place/user/with_shared"
says_hello "$place/user/with_static"
if [ -n "$cxx" ]; then
    says_hello "$place/user/cpp_with_shared"
    says_hello "$place/user/cpp_with_static"
fi

[ -L "$lib/libheadrace.so.0" ] || { say "no libheadrace.so.0" && exit 1; }
shown=$(nm -D --defined-only "$lib/libheadrace.so" | awk '{ print $NF }' | grep -vE '^hr_[a-z]' || true)
[ -z "$shown" ] || { say "shows more than the public functions: $shown" && exit 1; }
