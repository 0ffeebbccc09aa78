"""Checkpoints of processes that do not see the same folder."""
import mpi_kit
import privileges
import program_kit
from mpi_kit import mpirun
from program_kit import tiny


def setUpModule():
    privileges.enter_private_mounts()


class MpiCheckpoint(mpi_kit.Case):
    def test_a_rank_with_a_folder_of_its_own_is_named(self):
        """As if its host had a disk of that name of its own."""
        self.out.mkdir()
        words = tiny(out=self.out)
        apart = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(self.out)]
        said = self.fails(mpirun((1, words), (1, apart + words)), 1, "rank 1", "host ",
                          "model-00002-of-00002.safetensors", "No such file", "one for all hosts")
        self.assertIn(str(self.out / "checkpoint/step-00000002.tmp-"), said)
        self.only_whole_files(self.out)


if __name__ == "__main__":
    program_kit.main()
