"""Training over several hosts gives the bits of a run over threads, also where packets get lost."""
import json
import pathlib
import re

from net_kit import MPIEXEC, NetCase, world
from program_kit import main, tiny

# What is no figure of the training, but of the machine on which it ran.
CHANGING = ("tokens_per_s", "comm_hidden", "step_ms", "bubble")


def figures(out):
    """The lines of metrics.jsonl without what changes from run to run."""
    lines = map(json.loads, (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key not in CHANGING} for line in lines]


def kept(out):
    """The files of the checkpoint, by name."""
    folder = pathlib.Path(out) / "checkpoint"
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def launched(n_hosts, n_ranks, *before, loss=None, **options):
    words = tiny(link_gbps=None, link_us=None, **options)
    return world(n_hosts, *before, MPIEXEC, "-n", n_ranks, *words, loss=loss)


class SameBits(NetCase):
    def same_as_threads(self, n_hosts, n_ranks, before=(), loss=None, **options):
        self.train(out=self.folder / "threads", **options)
        ended = self.done(launched(n_hosts, n_ranks, *before, loss=loss, out=self.out, **options))
        self.assertEqual(figures(self.out), figures(self.folder / "threads"))
        self.assertEqual(kept(self.out), kept(self.folder / "threads"))
        return ended

    def test_experts_on_two_hosts_train_as_on_threads(self):
        count = 'ip -s link show cable1 >"$0"; "$@"; ip -s link show cable1 >"$0.after"'
        self.same_as_threads(2, 2, before=("sh", "-c", count, self.folder / "sent"), ep=2)
        before, after = (int(re.search(r"RX:.*\n\s*(\d+)", (self.folder / name).read_text())[1])
                         for name in ("sent", "sent.after"))
        self.assertGreater(after - before, 100_000)  # it is the cable that tokens go over

    def test_a_pipeline_and_experts_on_three_hosts_train_as_on_threads(self):
        self.same_as_threads(3, 4, pp=2, ep=2)

    def test_packets_that_get_lost_change_nothing(self):
        count = '"$@"; status=$?; ip netns exec host1 nft list ruleset; exit $status'
        ended = self.same_as_threads(2, 4, before=("sh", "-c", count, "sh"), loss=3, pp=2, ep=2)
        self.assertGreater(int(re.search(r"packets (\d+)", ended.out)[1]), 0)


if __name__ == "__main__":
    main()
