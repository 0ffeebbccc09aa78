"""Commands in a world of several hosts (scripts/hosts.sh), and cases that are skipped where there is none.
With what tests/program uses for the rest."""
import os

from program_kit import Case, run

HOSTS = "scripts/hosts.sh"  # of the repository, which is the working folder
MPIEXEC = os.environ.get("MPIEXEC", "mpirun")  # of the library that the program was built with


def world(n, *command, rate=None, loss=None):
    """The command in a world of n hosts."""
    limits = (["-r", rate] if rate else []) + (["-l", str(loss)] if loss else [])
    return ["sh", HOSTS, *limits, str(n), *map(str, command)]


class NetCase(Case):
    @classmethod
    def setUpClass(cls):
        ended = run(world(1, "true"))
        if ended.status == 77:
            cls.reason = ended.out.strip()
        else:
            cls.reason = None if ended.status == 0 else f"{HOSTS} fails: {ended.err}"

    def setUp(self):
        super().setUp()
        if self.reason:
            self.skipTest(self.reason)
