"""Data and outputs that are there and of no use: exit 1, and the last line names them."""
import os
import subprocess

import program_kit
from program_kit import LONGEST, command, run, tiny


class OddFiles(program_kit.Case):
    def test_missing_data_is_named(self):
        path = self.folder / "nowhere"
        self.check(run(tiny(data=path, out=self.out)), 1, path, "No such file")
        self.assertFalse(self.out.exists())

    def test_empty_data_is_named(self):
        path = self.write("empty.txt", "")
        self.check(run(tiny(data=path, out=self.out)), 1, path, "empty")

    def test_an_empty_folder_is_named(self):
        path = self.folder / "bare"
        path.mkdir()
        self.check(run(tiny(data=path, out=self.out)), 1, path)

    def test_a_folder_of_empty_files_is_named(self):
        for name in "ab":
            self.write(f"hollow/{name}.h", "")
        self.check(run(tiny(data=self.folder / "hollow", out=self.out)), 1,
                   self.folder / "hollow")

    def test_binary_data_is_named(self):
        path = self.write("binary", bytes(range(256)) * 100)
        self.check(run(tiny(data=path, out=self.out)), 1, path, "binary")

    def test_a_folder_of_binary_files_is_named(self):
        for name in "ab":
            self.write(f"objects/{name}.o", bytes(1000))
        self.check(run(tiny(data=self.folder / "objects", out=self.out)), 1,
                   self.folder / "objects")

    def test_data_shorter_than_a_sequence_names_both_lengths(self):
        path = self.write("short.txt", "x" * 100)
        self.check(run(tiny(data=path, seq=100, out=self.out)), 1, path, "100", "101")

    def test_text_that_just_suffices_trains(self):
        path = self.write("just.txt", "x" * 1000)
        self.train(data=path, steps=1)

    def test_bytes_that_are_no_utf8_train(self):
        self.train(data=self.write("latin.txt", bytes(range(1, 256)) * 20), steps=1)

    def test_a_link_that_goes_in_a_circle_ends(self):
        self.write("tree/a.h", "int a_word;\n" * 100)
        (self.folder / "tree/again").symlink_to(self.folder / "tree")
        self.train(data=self.folder / "tree", steps=1)

    def test_pipes_and_devices_are_no_data(self):
        path = self.folder / "pipe"
        os.mkfifo(path)
        for data in (path, "/dev/zero"):
            self.check(run(tiny(data=data, out=self.out)), 1, data, "neither a file")
            self.check(run(command("sample", checkpoint=data)), 1, data, "regular")

    def test_an_output_folder_that_is_a_file_is_named(self):
        path = self.write("in_the_way", "x")
        for out in (path, path / "run"):
            self.check(run(tiny(out=out)), 1, out, "Not a directory")

    def test_names_with_blanks_and_quotes_are_taken_as_they_are(self):
        self.train(out=self.folder / "a b 'c\" %s %n é")

    def test_a_full_standard_output_is_a_failure(self):
        self.train()
        with open("/dev/full", "wb") as full:
            for words in (tiny(out=self.out), command("sample", checkpoint=self.out, length=9),
                          command("plan", help=True), command("--help"), command("--version")):
                done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False,
                                      timeout=LONGEST)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"standard output", done.stderr.splitlines()[-1])

    def test_in_a_log_of_both_streams_the_reason_is_the_last_line(self):
        path = self.folder / "missing" / "x.svg"
        done = subprocess.run(command("plan", schedule="zbv", out=path), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=LONGEST)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(path).encode(), done.stdout.splitlines()[-1])

    def test_a_reader_that_goes_away_hangs_nobody(self):
        for both in (False, True):
            process = subprocess.Popen(
                tiny(out=self.out, steps=50), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if both else subprocess.DEVNULL)
            process.stdout.close()
            process.wait(timeout=LONGEST)  # by what signal or status is the shell's affair

    def test_without_any_standard_stream_the_checkpoint_is_still_whole(self):
        words = " ".join(f"'{word}'" for word in tiny(out=self.out))
        subprocess.run(["sh", "-c", f"exec {words} <&- >&- 2>&-"], check=False, timeout=LONGEST)
        self.sampled(self.out)


if __name__ == "__main__":
    program_kit.main()
