# File names are unique in the whole tree, and snake_case where they are code.
set -u
status=0

files() {
    find . \( -path ./build -o -path ./.git -o -name __pycache__ \) -prune -o -type f "$@" -print
}

# A room's public header and the room's own files differ by folder anyway; what build tools and
# readers want by a fixed name is left out, as is gpu-check.sh, a command that people type.
twice=$(files -name '*.[ch]' | sed 's|.*/||' | sort | uniq -d)
if [ -n "$twice" ]; then
    echo "the same name twice:" $twice
    status=1
fi
odd=$(files \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \) | sed 's|.*/||' |
    grep -vE '^([a-z0-9_]+\.[a-z]+|gpu-check\.sh)$')
if [ -n "$odd" ]; then
    echo "not in snake_case:" $odd
    status=1
fi
exit $status
