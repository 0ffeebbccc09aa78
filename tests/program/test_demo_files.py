"""What a training run leaves: all the files, each readable by those who are to read it."""
import json
import math
import struct
import xml.etree.ElementTree as xml

import program_kit
from program_kit import INDEX, last_step, tiny

NAMES = ("step", "loss", "tokens_per_s", "comm_hidden", "step_ms")
NODES = {"pre_dispatch_computation", "moe_dispatch", "mlp", "moe_combine"}


class DemoFiles(program_kit.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("train_once")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        cls.ended = case.done(tiny(out=case.out, steps=6, eval_every=2, link_us=200, link_gbps=1))
        cls.left = case.out

    def train_once(self):
        """The run that all tests here look at; made by setUpClass."""

    def test_all_are_there(self):
        for name in ("metrics.jsonl", "loss.svg", "timeline.svg", "timeline.png", "trace.json",
                     "sample.txt"):
            self.assertGreater((self.left / name).stat().st_size, 0, name)
        names = [path.name for path in last_step(self.left).iterdir()]
        self.assertEqual(sorted(names), ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX])
        self.only_whole_files(self.left)

    def test_metrics_have_a_line_a_step_with_the_promised_names(self):
        lines = [json.loads(line) for line in (self.left / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4, 5, 6])
        for line in lines:
            for name in NAMES:
                self.assertTrue(math.isfinite(line[name]), name)
            self.assertTrue(0 <= line["comm_hidden"] <= 1)
            self.assertGreater(line["tokens_per_s"], 0)
            self.assertGreater(line["step_ms"], 0)
        self.assertEqual([line["step"] for line in lines if "val_loss" in line], [2, 4, 6])

    def test_the_trace_has_both_streams_of_each_rank_and_the_nodes(self):
        trace = json.loads((self.left / "trace.json").read_text())
        events = trace["traceEvents"]
        lanes = {(event["pid"], event["args"]["name"]) for event in events
                 if event["ph"] == "M" and event["name"] == "thread_name"}
        self.assertLessEqual({(rank, stream) for rank in (0, 1)
                              for stream in ("compute", "communication")}, lanes)
        spans = [event for event in events if event["ph"] == "X"]
        self.assertLessEqual(NODES, {span["name"] for span in spans})
        for span in spans:
            self.assertGreaterEqual(span["ts"], 0)
            self.assertGreaterEqual(span["dur"], 0)
        self.assertLessEqual({"forward", "backward"},
                             {span.get("args", {}).get("direction") for span in spans})
        self.assertIn("imitated", json.dumps(trace["otherData"]))

    def test_pictures_can_be_read_and_name_the_imitated_link(self):
        for name in ("loss.svg", "timeline.svg"):
            root = xml.parse(self.left / name).getroot()
            self.assertTrue(root.tag.endswith("svg"))
        png = (self.left / "timeline.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertTrue(all(struct.unpack(">II", png[16:24])))
        self.assertIn("imitated", self.ended.out)

    def test_the_checkpoint_is_safetensors_files_with_their_index(self):
        index = json.loads((last_step(self.left) / INDEX).read_text())
        weights, total = {}, 0
        for path in last_step(self.left).glob("*.safetensors"):
            contents = path.read_bytes()
            n = struct.unpack("<Q", contents[:8])[0]
            header = json.loads(contents[8:8 + n])
            del header["__metadata__"]
            weights.update(dict.fromkeys(header, path.name))
            end = max(entry["data_offsets"][1] for entry in header.values())
            self.assertEqual(8 + n + end, len(contents))
            total += end
        self.assertEqual(index["weight_map"], weights)
        self.assertEqual(index["metadata"]["total_size"], total)

    def test_the_end_says_losses_and_where_everything_is(self):
        self.assertIn("validation loss", self.ended.out)
        self.assertIn(str(self.left), self.ended.out)

    def test_plain_lines_are_written_where_there_is_no_terminal(self):
        self.assertIn("step 6/6", self.ended.err)
        self.assertNotIn("\x1b", self.ended.err)
        self.assertNotIn("\r", self.ended.err)


if __name__ == "__main__":
    program_kit.main()
