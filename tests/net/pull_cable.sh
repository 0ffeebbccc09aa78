#!/bin/sh
# pull_cable.sh FOLDER METRICS MPIEXEC -n N COMMAND...: inside a world of hosts (scripts/hosts.sh). Starts the
# ranks, pulls host1's cable when METRICS has five lines, and waits for all to end. FOLDER gets
# what each rank said on its standard error (said.0, ...), and `left`: the processes that are still there. Ends
# as mpirun does.
set -u
folder=$1 metrics=$2 mpiexec=$3 n=$5
shift 5

# Until TCP gives a silent peer up the launcher waits, too. The kernel's 15 tries are a quarter of an hour.
for host in host0 host1; do
    ip netns exec $host sysctl -q -w net.ipv4.tcp_retries2=3
done
sysctl -q -w net.ipv4.tcp_retries2=3
export OMPI_MCA_oob_tcp_keepalive_time=10 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=2

lines() {
    if [ -e "$metrics" ]; then wc -l <"$metrics"; else echo 0; fi
}

# shellcheck disable=SC2016 # for the rank's shell
"$mpiexec" -n "$n" sh -c '
    exec "$@" 2>"$0/said.$OMPI_COMM_WORLD_RANK"' "$folder" "$@" &
while [ "$(lines)" -lt 5 ] && kill -0 $!; do
    sleep 0.05
done
ip link set cable1 down
wait $!
status=$?

left() {
    cat /proc/[0-9]*/comm 2>/dev/null | grep -xE "orted|mpirun.*|mpiexec.*|headrace"
}
# The last of them ends when TCP has given up on its side, too.
tries=0
while left >/dev/null && [ $tries -lt 200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
left >"$folder/left"
exit $status
