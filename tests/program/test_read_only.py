"""An output folder on a disk that cannot be written."""
import program_kit
import privileges
from program_kit import left_by, run, tiny


def setUpModule():
    privileges.enter_private_mounts()


class ReadOnly(program_kit.Case):
    def setUp(self):
        super().setUp()
        self.out.mkdir()
        privileges.mount_small_disk(self.out, 4096)
        self.addCleanup(privileges.unmount, self.out)

    def test_is_named_and_the_former_checkpoint_stays_of_use(self):
        former = self.train(steps=2)
        privileges.make_read_only(self.out)
        for options in ({"steps": 2}, {"steps": 4, "resume": True}):
            self.check(run(tiny(out=self.out, **options)), 1, self.out, "Read-only file system")
        self.assertEqual(left_by(self.out), former)
        self.sampled(self.out)

    def test_is_named_where_the_folder_is_yet_to_be_made(self):
        privileges.make_read_only(self.out)
        new = self.out / "new"
        self.check(run(tiny(out=new)), 1, new, "Read-only file system")


if __name__ == "__main__":
    program_kit.main()
