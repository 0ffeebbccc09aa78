# Who sees whom: each room includes along the table below and nothing else; the program, the
# benchmarks and the conformance runner are users and see the public headers alone.
set -u
status=0

complain() {
    echo "$1"
    status=1
}

# Rooms that room $1 may see; the first word of each line.
sees() {
    case $1 in
    base) echo ;;
    trace) echo base ;;
    device) echo base trace ;;
    tensor) echo base trace device ;;
    autograd) echo base trace device tensor ;;
    group) echo base trace device tensor ;;
    ops) echo base trace device tensor autograd ;;
    pipeline) echo base trace device tensor autograd group ;;
    plan) echo base trace device tensor autograd group pipeline ;;
    moe) echo base trace device tensor autograd group ops pipeline ;;
    schedule) echo base ;;
    exec) echo base trace device tensor group pipeline plan schedule ;;
    *) echo unknown ;;
    esac
}

# "file:path" for each quoted include below the folders given.
quoted() {
    grep -rHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' "$@" |
        sed -E 's/^([^:]*):[^"]*"([^"]*)".*/\1:\2/'
}

for folder in src/*/; do
    room=$(basename "$folder")
    allowed=" $room $(sees "$room") "
    [ "$allowed" != " $room unknown " ] || complain "$folder is no room that the table knows"
    found=$(quoted "$folder")
    for line in $found; do
        file=${line%%:*} path=${line#*:}
        seen=${path#headrace/} # a public header of that room, or a folder of that name
        seen=${seen%%/*}
        seen=${seen%.h}
        seen=${seen%%_*} # group_mpi.h is of the room group
        case "$allowed" in
        *" $seen "*) ;;
        *) complain "$file: room '$room' may not see \"$path\"" ;;
        esac
    done
done

# What stands beside the file itself is its own business.
for folder in app bench examples tests/conform; do
    for line in $(quoted "$folder"); do
        file=${line%%:*} path=${line#*:}
        case "$path" in
        headrace/*) [ -f "include/$path" ] || complain "$file: no public header \"$path\"" ;;
        conform/*) [ "$folder/${path#conform/}" = "tests/$path" ] ||
            complain "$file: sees \"$path\", which is not public" ;;
        *) [ -f "$folder/$path" ] || [ -f "$(dirname "$file")/$path" ] ||
            complain "$file: sees \"$path\", which is not public" ;;
        esac
    done
done

# The public headers include each other along the same table.
for header in include/headrace/*.h; do
    room=$(basename "$header" .h)
    room=${room%%_*}
    [ "$room" != headrace ] || continue
    allowed=" $room $(sees "$room") "
    for line in $(quoted "$header"); do
        seen=$(basename "${line#*:}" .h)
        case "$allowed" in
        *" ${seen%%_*} "*) ;;
        *) complain "$header: may not see \"${line#*:}\"" ;;
        esac
    done
done
exit $status
