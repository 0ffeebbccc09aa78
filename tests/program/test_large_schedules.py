"""headrace plan --check on files of 100 MB and counts of 10^9: refused with a sentence, in little processor
time, and nothing is made in proportion to a count that only stands there."""
import resource

import program_kit
from program_kit import command, run

MOST_S = 20  # of processor time, where a sanitizer is built in; without one the slowest takes one
MB = 1000 * 1000
HEAD = "headrace schedule 1\nranks {}\nstages {}\nmicrobatches {}\nplacement loop\n"


def little_time():
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))


class LargeSchedules(program_kit.Case):
    def refused(self, name, contents, *named):
        path = self.write(name, contents)
        self.check(run(command("plan", check=path), preexec_fn=little_time), 1, *named)

    def test_a_file_above_the_limit_names_it(self):
        self.refused("x.csv", b"0F0," * (25 * MB), "x.csv", 64 << 20)
        self.refused("x.txt", HEAD.format(1, 1, 1).encode() + b"x" * (100 * MB), "x.txt", 64 << 20)

    def test_a_file_of_zeros_that_never_ends_names_the_limit(self):
        self.check(run(command("plan", check="/dev/zero"), preexec_fn=little_time), 1, "/dev/zero",
                   64 << 20)

    def test_a_long_csv_within_the_limit_names_what_is_wrong(self):
        for contents, named in ((b"\n" * (60 * MB), "65535 lines"),
                                (b"," * (60 * MB), "no action"),
                                (b"9" * (60 * MB), "stage is above 65534"),
                                (b"0F0," * (15 * MB), "0F0 stands twice"),
                                (b"(" + b"0F0;" * (15 * MB) + b"0F0)OVERLAP_F_B", "255 actions")):
            with self.subTest(named=named):
                self.refused("x.csv", contents, named)

    def test_a_long_text_within_the_limit_names_what_is_wrong(self):
        head = HEAD.format(1, 1, 1).encode()
        for contents, named in ((head + b"rank 0" + b" 0F0" * (15 * MB), "0F0 stands twice"),
                                (head + b"\n" * (60 * MB), "line 6"),
                                (head + b"x" * (60 * MB), "line 6")):
            with self.subTest(named=named):
                self.refused("x.txt", contents, named)

    def test_counts_of_a_thousand_million_are_named(self):
        for sizes in ((10**9, 1, 1), (1, 10**9, 1), (1, 1, 10**9), (10**9, 10**9, 10**9)):
            with self.subTest(sizes=sizes):
                self.refused("x.txt", HEAD.format(*sizes), 10**9, "at most")
        self.refused("x.txt", HEAD.format(1, 10**19, 1), "line 3")
        self.refused("x.csv", "0F1000000000\n", 10**9 + 1, "at most")
        self.refused("x.csv", "1000000000F0\n", "1000000000F0", "above 65534")

    def test_the_largest_counts_taken_cost_no_more_than_what_is_there(self):
        self.refused("x.txt", HEAD.format(65535, 65535, 1024), "0 of 65535 ranks")
        self.refused("x.csv", "0F67108863\n", "0F0 is missing")
        self.refused("x.csv", "0F0\n65534F1023\n", "0F1 is missing")


if __name__ == "__main__":
    program_kit.main()
