"""What file modes forbid, for a user who has to obey them."""
import program_kit
import privileges
from program_kit import command, run, tiny


class UnreadableData(program_kit.Case):
    def setUp(self):
        super().setUp()
        self.locked = self.write("locked.txt", "text " * 1000)
        self.locked.chmod(0)
        privileges.skip_unless_modes_are_obeyed(self.locked)

    def refused(self, words, *named):
        self.check(run(words, preexec_fn=privileges.obey_modes), *named)

    def test_a_file_that_may_not_be_read_is_named(self):
        self.refused(tiny(data=self.locked, out=self.out), 1, self.locked, "Permission denied")

    def test_a_folder_that_may_not_be_read_is_named(self):
        folder = self.folder / "locked"
        folder.mkdir(mode=0)
        self.addCleanup(folder.chmod, 0o700)
        self.refused(tiny(data=folder, out=self.out), 1, folder, "Permission denied")

    def test_a_folder_of_nothing_but_locked_files_is_named(self):
        self.write("all/a.h", "text " * 1000).chmod(0)
        self.refused(tiny(data=self.folder / "all", out=self.out), 1, self.folder / "all")

    def test_one_locked_file_of_many_is_left_out(self):
        for name in ("a.h", "b.h", "c.h"):
            path = self.write(f"some/{name}", "int a_word;\n" * 100)
        path.chmod(0)
        self.done(tiny(data=self.folder / "some", out=self.out), preexec_fn=privileges.obey_modes)

    def test_an_output_folder_that_may_not_be_written_is_named(self):
        self.folder.chmod(0o500)
        self.addCleanup(self.folder.chmod, 0o700)
        self.refused(tiny(out=self.out), 1, self.out, "Permission denied")

    def test_a_config_that_may_not_be_read_is_named(self):
        self.refused(command("train", config=self.locked), 2, self.locked, "Permission denied")

    def test_a_checkpoint_that_may_not_be_read_is_named(self):
        self.refused(command("sample", checkpoint=self.locked), 1, self.locked,
                     "Permission denied")


if __name__ == "__main__":
    program_kit.main()
