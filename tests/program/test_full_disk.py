"""A disk without room: exit 1, path and cause named, and the former checkpoint byte for byte."""
import program_kit
import privileges
from program_kit import command, left_by, run, take_step, tiny


def setUpModule():
    privileges.enter_private_mounts()


class FullDisk(program_kit.Case):
    def setUp(self):
        super().setUp()
        self.out.mkdir()
        privileges.mount_small_disk(self.out, 4096)
        self.addCleanup(privileges.unmount, self.out)

    def test_the_former_checkpoint_survives(self):
        former = self.train(steps=2)
        privileges.fill_disk(self.out, len(former) // 2)
        self.check(run(tiny(out=self.out, steps=4, resume=True)), 1, self.out / "checkpoint",
                   "No space left on device")
        self.assertEqual(left_by(self.out), former)
        self.only_whole_files(self.out)
        self.sampled(self.out)

    def test_a_run_goes_on_when_there_is_room_again(self):
        whole = self.train(out=self.folder / "roomy", steps=4, checkpoint_every=2, keep=2)
        take_step(self.folder / "roomy", 2, self.out)
        privileges.fill_disk(self.out, len(left_by(self.out)) // 2)
        self.check(run(tiny(out=self.out, steps=4, resume=True)), 1, "No space left")
        (self.out / "filler").unlink()
        self.assertEqual(self.train(steps=4, resume=True), whole)

    def test_metrics_without_room_are_named(self):
        former = self.train(steps=2)
        privileges.fill_disk(self.out, 0)
        self.check(run(tiny(out=self.out, steps=400, resume=True)), 1,
                   self.out / "metrics.jsonl", "No space left on device")
        self.assertEqual(left_by(self.out), former)

    def test_a_sample_without_room_is_named(self):
        self.train(steps=1)
        privileges.fill_disk(self.out, 0)
        path = self.out / "text"
        self.check(run(command("sample", checkpoint=self.out, out=path, length=5)), 1, path,
                   "No space left on device")
        self.only_whole_files(self.out)


if __name__ == "__main__":
    program_kit.main()
