# Each public header compiles alone, as C11 and as C++17, without extensions or warnings.
set -u
status=0
warn="-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only"
cxx=$(command -v g++ || command -v clang++ || true)
[ -n "$cxx" ] || { echo "no C++ compiler"; exit 77; }

for header in include/headrace/*.h; do
    line="#include \"headrace/$(basename "$header")\""
    echo "$line" | "${CC:-cc}" -std=c11 $warn -x c - || { echo "$header as C11"; status=1; }
    echo "$line" | "$cxx" -std=c++17 $warn -x c++ - || { echo "$header as C++17"; status=1; }
done
exit $status
