#!/bin/sh
# hosts.sh [-r RATE] [-l PERCENT] N COMMAND...: runs COMMAND on a switch with N hosts, all on this machine:
# host0, host1, ... are network namespaces, each with a name, an address (10.77.0.1, ...) and a cable to the
# switch. mpirun finds them as its hosts, deals ranks to them in turn, and speaks TCP between them:
#
#     sudo scripts/hosts.sh -r 1gbit 2 mpirun -n 2 build/release/headrace train --ep 2 --out /tmp/run
#
# Where there are as many processor cores as hosts, each host has some of its own, as hosts have.
#
#     -r RATE      of each cable and direction, in tc's words
#     -l PERCENT   of the packets that come to a host are lost
#
# On the switch the cables are cable0, cable1, ...: `ip link set cable1 down` pulls one. All this, processes
# and temporary files of MPI too, is in namespaces that nobody else sees and goes with the first process: two
# runs do not meet, and one that is killed leaves nothing. Where it cannot be had: says why, exits with 77.
set -eu

usage() {
    echo "usage: $0 [-r RATE] [-l PERCENT] N COMMAND..." >&2
    exit 2
}

skip() {
    echo "skipped: hosts in network namespaces: $1"
    exit 77
}

rate="" loss=""
while getopts r:l: option; do
    case $option in
    r) rate=$OPTARG ;;
    l) loss=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage

if [ -z "${HOSTS_APART:-}" ]; then
    [ "$(id -u)" = 0 ] || skip "want root"
    for tool in unshare setpriv taskset ip tc nft mpirun; do
        command -v $tool >/dev/null 2>&1 || skip "want $tool"
    done
    apart="unshare --net --uts --mount --pid"
    why=$($apart true 2>&1) || skip "$why"
    # Its child is the first process in there, with which all others end; and it ends with us.
    HOSTS_APART=1 exec $apart sh -c 'setpriv --pdeathsig KILL sh "$@"; exit $?' sh \
        "$0" ${rate:+-r "$rate"} ${loss:+-l "$loss"} "$@"
fi
unset HOSTS_APART
n=$1
shift

# What MPI keeps under a host's name or a process's number must meet nothing of another run.
folders() {
    mount -t proc proc /proc
    mount -t tmpfs run /run
    mount -t tmpfs shm /dev/shm
    mkdir /run/netns /run/mpi /run/cores
    echo "127.0.0.1 localhost" >/run/names
    for i in $(seq 0 $((n - 1))); do
        echo "10.77.0.$((i + 1)) host$i" >>/run/names
        echo "host$i slots=64" >>/run/hosts
    done
    mount --bind /run/names /etc/hosts
}

switch() {
    hostname switch
    ip link set lo up
    ip link add switch type bridge
    ip addr add 10.77.0.254/24 dev switch
    ip link set switch up
}

# In both directions. A burst holds what TCP sends in one piece, so that nothing is cut up to be let through.
limit() {
    tc qdisc add dev "cable$1" root tbf rate "$rate" burst 128k latency 100ms
    tc -n "host$1" qdisc add dev eth0 root tbf rate "$rate" burst 128k latency 100ms
}

lose() {
    ip netns exec "host$1" nft "add table inet loss
        add chain inet loss input { type filter hook input priority 0; }
        add rule inet loss input iif eth0 numgen random mod 100 < $loss counter drop"
}

# Every n-th of those that we may run on, from the host's number on; all where they do not go round.
cores() {
    taskset -cp $$ | awk -F '[:,] *' -v n="$n" -v host="$1" '{
        for (i = 2; i <= NF; i++) {
            ends = split($i, end, "-")
            for (core = end[1]; core <= end[ends]; core++)
                of[have++] = core
        }
        for (i = 0; i < have; i++)
            if (have < n || i % n == host)
                list = list "," of[i]
        print substr(list, 2)
    }'
}

host() {
    ip netns add "host$1"
    ip link add "cable$1" type veth peer name eth0 netns "host$1"
    ip -n "host$1" link set lo up
    ip -n "host$1" addr add "10.77.0.$(($1 + 1))/24" dev eth0
    ip -n "host$1" link set eth0 up
    ip link set "cable$1" master switch up
    [ -z "$rate" ] || limit "$1"
    [ -z "$loss" ] || lose "$1"
    cores "$1" >"/run/cores/host$1"
}

# How mpirun starts its part on a host: in place of ssh.
shell() {
    cat >/run/enter <<'END'
#!/bin/sh
host=$1
shift
exec taskset -c "$(cat "/run/cores/$host")" ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
END
    chmod +x /run/enter
}

set_up() {
    folders
    switch
    for i in $(seq 0 $((n - 1))); do
        host "$i"
    done
    shell
}
set +e # or what is run for its status would go on after a command that fails
said=$(set -e; set_up 2>&1)
[ $? = 0 ] || skip "$said"
set -e

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm_rsh_agent=/run/enter OMPI_MCA_plm_rsh_no_tree_spawn=1
export OMPI_MCA_orte_default_hostfile=/run/hosts OMPI_MCA_orte_tmpdir_base=/run/mpi
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
export OMPI_MCA_osc=^rdma # one-sided: it wants more of the network than TCP
# In turn; and what a host has of the cores is not what a host of its own would bind ranks to.
export OMPI_MCA_rmaps_base_mapping_policy=node OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1

set +e # stays the first process, so that all ends with it
"$@"
exit $?
