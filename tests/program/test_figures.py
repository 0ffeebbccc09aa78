"""Figures in metrics.jsonl are what their names say, however a run is laid out and weighed."""
import json

import program_kit
from program_kit import command, tiny


def union(spans):
    """Disjoint stretches that cover the same time, in order."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def length(spans):
    return sum(end - begin for begin, end in union(spans))


def both(a, b):
    return [(max(x[0], y[0]), min(x[1], y[1])) for x in union(a) for y in union(b)
            if max(x[0], y[0]) < min(x[1], y[1])]


class Figures(program_kit.Case):
    def metrics(self, **options):
        self.done(tiny(out=self.out, **options))
        return [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]

    def spans(self, rank, stream, kind):
        events = json.loads((self.out / "trace.json").read_text())["traceEvents"]
        lanes = {event["tid"] for event in events
                 if event["name"] == "thread_name" and event["pid"] == rank
                 and event["args"]["name"] == stream}
        return [(event["ts"], event["ts"] + event["dur"]) for event in events
                if event["ph"] == "X" and event["pid"] == rank and event["tid"] in lanes
                and event["cat"] == kind]

    def test_the_hidden_share_is_that_of_the_trace_without_experts_of_others_too(self):
        last = self.metrics(pp=2, vp=2, ep=1, dp=2, layers=4, microbatches=8, link_us=500)[-1]
        sent = self.spans(0, "communication", "transfer")
        hidden = length(both(sent, self.spans(0, "compute", "busy"))) / length(sent)
        self.assertGreater(length(sent), 0)
        self.assertAlmostEqual(last["comm_hidden"], hidden, delta=0.002)

    def test_every_mean_weighs_the_balance_of_a_sequence_alike(self):
        one = {"micro_batch_size": 4, "layers": 3}
        loss = {mode: self.metrics(loss_scale_mode=mode, **one)[0]["aux_loss"]
                for mode in ("sum", "mean_microbatch", "mean_token")}
        self.assertGreater(loss["mean_token"], 0)
        self.assertAlmostEqual(loss["mean_token"] / loss["mean_microbatch"], 1, places=5)
        sequences = 2 * 2 * 4  # microbatches, ranks, in one
        self.assertAlmostEqual(loss["sum"] / loss["mean_token"] / sequences, 1, places=5)

    def test_a_simulated_bubble_is_in_layers_whatever_a_file_says_of_costs(self):
        path = self.folder / "x.txt"
        self.done(command("plan", schedule="1f1b", pp=2, microbatches=8, transfer=7, latency=9,
                          pair_discount=50, cost_f=100, text=path))
        bubble = {name: self.metrics(pp=2, ep=1, microbatches=8, schedule=name)[0]["bubble_simulated"]
                  for name in ("1f1b", path)}
        self.assertEqual(bubble["1f1b"], bubble[path])

    def test_a_file_of_three_stages_on_two_ranks_learns_the_same(self):
        path = self.write("x.csv", "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,1B0,1B1\n")
        loss = {options["pp"]: self.metrics(ep=1, layers=3, **options)[-1]["val_loss"]
                for options in ({"pp": 1}, {"pp": 2, "schedule": path})}
        self.assertEqual(loss[1], loss[2])


if __name__ == "__main__":
    program_kit.main()
