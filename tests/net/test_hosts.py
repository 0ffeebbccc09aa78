"""scripts/hosts.sh itself: hosts that are told apart, cables that carry what they should, and nothing that
stays or is shared."""
import os
import pathlib
import signal
import subprocess
import time

from net_kit import HOSTS, MPIEXEC, NetCase, world
from program_kit import main, run


def marked(path):
    """Processes that have the path in their command line."""
    found = 0
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += bytes(path) in file.read_bytes()
        except OSError:
            pass  # it has ended
    return found


class Hosts(NetCase):
    def test_ranks_are_dealt_to_hosts_in_turn(self):
        said = self.done(world(2, MPIEXEC, "-n", "3", "hostname")).out
        self.assertEqual(sorted(said.split()), ["host0", "host0", "host1"])

    def test_hosts_find_each_other_by_name(self):
        said = self.done(world(2, "/run/enter", "host0", "getent", "hosts", "host1")).out
        self.assertEqual(said.split(), ["10.77.0.2", "host1"])

    def test_the_status_is_that_of_the_command(self):
        self.assertEqual(run(world(1, "sh", "-c", "exit 5")).status, 5)

    def test_a_rate_holds_in_both_directions(self):
        show = "tc qdisc show dev cable1; tc -n host1 qdisc show dev eth0"
        said = self.done(world(2, "sh", "-c", show, rate="80mbit")).out
        self.assertEqual(said.count("rate 80Mbit"), 2)

    def test_two_runs_at_once_do_not_meet(self):
        """Each says that it is up, and ends when the other is."""
        ready = [self.folder / "ready0", self.folder / "ready1"]
        for path in ready:
            os.mkfifo(path)
        swap = [f"{MPIEXEC} -n 2 hostname; ip link show cable1 >/dev/null || exit 1;"
                f"echo up >{ready[i]} & read word <{ready[1 - i]}; wait" for i in range(2)]
        both = [subprocess.Popen(world(2, "sh", "-c", text), stdout=subprocess.PIPE) for text in swap]
        for one in both:
            said, _ = one.communicate(timeout=60)
            self.assertEqual((one.returncode, sorted(said.split())), (0, [b"host0", b"host1"]))

    def test_nothing_is_left_of_one_that_is_killed(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            up = self.folder / f"up{number}"  # by its name processes are found
            os.mkfifo(up)
            one = subprocess.Popen(world(2, MPIEXEC, "-n", "1", "sh", "-c", f"echo >{up}; sleep 300"),
                                   stdout=subprocess.DEVNULL)
            up.read_bytes()  # it runs
            self.assertGreater(marked(up), 0)
            one.send_signal(number)
            one.wait(timeout=60)
            until = time.monotonic() + 30  # the kernel ends them after the first has gone
            while marked(up) and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual(marked(up), 0)

    def test_who_may_not_have_them_is_told_so(self):
        ended = run(["setpriv", "--reuid", "65534", "--clear-groups", *world(2, "true")])
        self.assertEqual((ended.status, ended.out), (77, "skipped: hosts in network namespaces: want root\n"))
        ended = run(["sh", HOSTS, "2"])
        self.assertEqual(ended.status, 2)
        self.assertIn("usage", ended.err)


if __name__ == "__main__":
    main()
