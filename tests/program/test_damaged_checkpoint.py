"""Checkpoints that are cut, changed, or of another model: refused by name, never used."""
import json
import struct

import program_kit
from program_kit import MODEL, command, run, tiny


def flipped(contents, at):
    changed = bytearray(contents)
    changed[at] ^= 1
    return bytes(changed)


class DamagedCheckpoint(program_kit.Case):
    def setUp(self):
        super().setUp()
        self.good = self.train(steps=2)
        self.path = self.out / MODEL

    def refused(self, contents, *named):
        """By both who read checkpoints; returns what sample says."""
        self.path.write_bytes(contents)
        said = self.check(run(command("sample", checkpoint=self.out)), 1, self.path, *named)
        self.check(run(tiny(out=self.out, steps=4, resume=True)), 1, self.path, *named)
        self.assertEqual(self.path.read_bytes(), contents)
        return said.last

    def header(self):
        return json.loads(self.good[8:8 + struct.unpack("<Q", self.good[:8])[0]])

    def with_header(self, header):
        text = json.dumps(header).encode()
        data = self.good[8 + struct.unpack("<Q", self.good[:8])[0]:]
        return struct.pack("<Q", len(text)) + text + data

    def test_a_cut_file_is_said_to_be_truncated(self):
        for n in (0, 7, 8, 100, len(self.good) // 2, len(self.good) - 1):
            with self.subTest(bytes=n):
                self.refused(self.good[:n], "truncated")

    def test_one_changed_bit_of_data_is_found(self):
        data = 8 + struct.unpack("<Q", self.good[:8])[0]
        for at in (data, (data + len(self.good)) // 2, len(self.good) - 1):
            with self.subTest(at=at):
                self.refused(flipped(self.good, at), "checksum")

    def test_one_changed_bit_of_the_header_is_found(self):
        for at in (0, 3, 7, 8, 40, 400):
            with self.subTest(at=at):
                self.refused(flipped(self.good, at))

    def test_bytes_behind_the_end_are_found(self):
        self.refused(self.good + b"\0" * 4)

    def test_changed_metadata_is_found(self):
        for key, value in (("step", "1"), ("experts", "2"), ("layers", "-1"), ("width", "x")):
            with self.subTest(key=key):
                header = self.header()
                header["__metadata__"][key] = value
                self.refused(self.with_header(header))

    def test_a_safetensors_file_of_another_program_is_refused(self):
        header = self.header()
        header["__metadata__"] = {"format": "pt"}
        self.refused(self.with_header(header), "no checkpoint of this program")

    def test_a_missing_checkpoint_is_named(self):
        self.path.unlink()
        for words in (command("sample", checkpoint=self.out),
                      tiny(out=self.out, steps=4, resume=True)):
            self.check(run(words), 1, self.path, "No such file")

    def test_another_model_is_refused_with_both_values(self):
        for option, had, wanted in (
                ("layers", 2, 3), ("width", 16, 32), ("heads", 2, 4), ("experts", 4, 8),
                ("top_k", 2, 1), ("expert_width", 16, 8), ("dense_layers", 1, 0),
                ("dense_width", 16, 8), ("shared_width", 0, 8), ("seq", 16, 8)):
            with self.subTest(option=option):
                self.check(run(tiny(out=self.out, steps=4, resume=True, **{option: wanted})), 1,
                           f"--{option.replace('_', '-')} {had}", f"{wanted}", self.out)
        self.assertEqual(self.path.read_bytes(), self.good)

    def test_a_run_that_is_done_already_says_so(self):
        self.check(run(tiny(out=self.out, steps=2, resume=True)), 1, "--resume", "2 steps",
                   "--steps is 2")


if __name__ == "__main__":
    program_kit.main()
