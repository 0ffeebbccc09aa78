# end_together.sh MPIEXEC PROGRAM: one rank of three stops, is killed or leaves. The launcher comes back with
# an error, no process of the job is left, and where a living rank can tell, it says who it was.
set -u
mpiexec=$1 program=$2 status=0

complain() {
    echo "$1"
    status=1
}

# The brackets keep this grep out of what it finds.
left() {
    grep -lz "$place/rank[s]_$mode" /proc/[0-9]*/cmdline 2>/dev/null | wc -l
}

for mode in stop kill exit; do
    # A name of its own, by which what is left is found.
    place=$(mktemp -d)
    cp "$program" "$place/ranks_$mode"
    timeout 60 "$mpiexec" -n 3 "$place/ranks_$mode" "$mode" >"$place/said" 2>&1
    code=$?
    [ "$code" != 0 ] || complain "$mode: the launcher returned 0"
    [ "$code" != 124 ] || complain "$mode: the job did not end"
    tries=0 # what the launcher has killed may end a little after it
    while [ "$(left)" != 0 ] && [ "$tries" -lt 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ "$(left)" = 0 ] || complain "$mode: $(left) processes are left"
    if [ "$mode" = stop ] && ! grep -q "missing: 1; rank 1 (host .*) does not answer" "$place/said"; then
        complain "$mode: no rank named the one that stopped"
    fi
    [ "$status" = 0 ] || cat "$place/said"
    rm -rf "$place"
done
exit $status
