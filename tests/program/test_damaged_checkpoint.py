"""Checkpoints that are cut, changed, mixed up, or of another model: refused by name, never used."""
import json
import shutil
import struct

import program_kit
from program_kit import INDEX, command, last_step, left_by, run, tiny


def flipped(contents, at):
    changed = bytearray(contents)
    changed[at] ^= 1
    return bytes(changed)


class DamagedCheckpoint(program_kit.Case):
    def setUp(self):
        super().setUp()
        self.left = self.train(steps=2)
        self.index = last_step(self.out) / INDEX
        self.path = last_step(self.out) / "model-00001-of-00002.safetensors"
        self.good = self.path.read_bytes()

    def refused(self, contents, *named, path=None):
        """By both who read checkpoints; returns what sample says."""
        path = path or self.path
        former = path.read_bytes()
        path.write_bytes(contents)
        said = self.check(run(command("sample", checkpoint=self.out)), 1, path, *named)
        self.not_resumed(path, *named)
        self.assertEqual(path.read_bytes(), contents)
        path.write_bytes(former)
        return said.last

    def not_resumed(self, *named):
        self.check(run(tiny(out=self.out, steps=4, resume=True)), 1, *named)

    def data_at(self):
        return 8 + struct.unpack("<Q", self.good[:8])[0]

    def header(self):
        return json.loads(self.good[8:self.data_at()])

    def with_header(self, header):
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + self.good[self.data_at():]

    def test_a_cut_file_is_said_to_be_truncated(self):
        for n in (0, 7, 8, 100, len(self.good) // 2, len(self.good) - 1):
            with self.subTest(bytes=n):
                self.refused(self.good[:n], "truncated")

    def test_one_changed_bit_of_a_weight_is_found(self):
        self.refused(flipped(self.good, self.data_at()), "checksum")

    def test_one_changed_bit_of_the_optimiser_s_state_is_found_by_who_wants_it(self):
        for at in ((self.data_at() + len(self.good)) // 2, len(self.good) - 1):
            with self.subTest(at=at):
                self.path.write_bytes(flipped(self.good, at))
                self.not_resumed(self.path, "checksum", ".adam_")
                self.sampled(self.out)

    def test_one_changed_bit_of_the_header_is_found(self):
        for at in (0, 3, 7, 8, 40, 400):
            with self.subTest(at=at):
                self.refused(flipped(self.good, at))

    def test_bytes_behind_the_end_are_found(self):
        self.refused(self.good + b"\0" * 4)

    def test_a_safetensors_file_of_another_program_is_refused(self):
        header = self.header()
        header["__metadata__"] = {"format": "pt"}
        self.refused(self.with_header(header), "not the file that the index")

    def test_a_file_of_another_checkpoint_is_refused(self):
        self.train(steps=3, resume=True, keep=2)
        path = last_step(self.out) / self.path.name
        self.refused(self.good, "of step 2, and its index of step 3", path=path)

    def test_changed_metadata_is_found(self):
        for key, value in (("step", "1"), ("experts", "2"), ("layers", "-1"), ("width", "x"),
                           ("headrace.format", "headrace-1")):
            with self.subTest(key=key):
                index = json.loads(self.index.read_text())
                index["metadata"][key] = value
                self.refused(json.dumps(index).encode(), path=self.index)

    def test_a_cut_or_changed_index_is_named(self):
        text = self.index.read_bytes()
        for contents in (b"", text[:len(text) // 2], flipped(text, len(text) // 2)):
            self.refused(contents, path=self.index)

    def test_missing_files_are_named(self):
        for path, named in ((self.path, self.path), (self.index, self.index), (last_step(self.out), self.out)):
            with self.subTest(path=path):
                away = self.folder / "away"
                path.rename(away)
                self.check(run(command("sample", checkpoint=self.out)), 1, named)
                self.not_resumed(named)
                away.rename(path)
        shutil.rmtree(self.out / "checkpoint")
        self.not_resumed(self.out, "no checkpoint")
        self.check(run(command("sample", checkpoint=self.out / "nowhere")), 1, "nowhere", "No such file")

    def test_another_model_is_refused_with_both_values(self):
        for option, had, wanted in (
                ("layers", 2, 3), ("width", 16, 32), ("heads", 2, 4), ("experts", 4, 8),
                ("top_k", 2, 1), ("expert_width", 16, 8), ("dense_layers", 1, 0),
                ("dense_width", 16, 8), ("shared_width", 0, 8), ("seq", 16, 8)):
            with self.subTest(option=option):
                self.check(run(tiny(out=self.out, steps=4, resume=True, **{option: wanted})), 1,
                           f"--{option.replace('_', '-')} {had}", f"{wanted}", self.out)
        self.assertEqual(left_by(self.out), self.left)

    def test_a_run_that_is_done_already_says_so(self):
        self.check(run(tiny(out=self.out, steps=2, resume=True)), 1, "--resume", "2 steps",
                   "--steps is 2")


if __name__ == "__main__":
    program_kit.main()
