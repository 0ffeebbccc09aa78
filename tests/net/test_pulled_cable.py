"""A cable that is pulled in the middle of training: the ranks end after the time limit with a cause, the launcher
when TCP has given up, and only whole files stay."""
from net_kit import MPIEXEC, NetCase, world
from program_kit import main, run, tiny


class PulledCable(NetCase):
    def test_all_ranks_end_with_a_cause_and_leave_only_whole_files(self):
        words = tiny(link_gbps=None, link_us=None, steps=1000000, timeout=2, pp=2, ep=2, checkpoint_every=1,
                     out=self.out)
        ended = run(world(2, "sh", "tests/net/pull_cable.sh", self.folder, self.out / "metrics.jsonl",
                          MPIEXEC, "-n", 4, *words))
        self.assertNotEqual(ended.status, 0)
        # Who waited, in what, and a rank beyond the cut: the one awaited, or whom the awaited one is waiting for.
        self.assertRegex((self.folder / "said.0").read_text(),
                         r"rank [02]: waited 2 s in \w+ \d+ of the group of ranks .*\b[13]\b.*\(host host0\)")
        self.assertEqual((self.folder / "left").read_text(), "")
        self.only_whole_files(self.out)
        self.sampled(self.out)


if __name__ == "__main__":
    main()
