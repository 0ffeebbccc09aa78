"""Operations over the MPI engine, beside bare MPI calls of the same sizes, buffers and processes, in turns; and
what of a core a rank uses that waits."""
import json
import os
import shutil
import subprocess

from programs import last, row

LIMIT_S = 180
WAIT_S = 10
LAUNCH = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
          "OMPI_MCA_hwloc_base_binding_policy": "none"}


def launch(program, ranks, *arguments):
    """Name to value."""
    done = subprocess.run(["mpirun", "-n", str(ranks), program, *arguments], capture_output=True, text=True,
                          timeout=LIMIT_S, env={**os.environ, **LAUNCH})
    if done.returncode != 0:
        raise SystemExit(f"bench: {program} failed: {last(done.stderr)}")
    return {r["name"]: r["value"] for r in map(json.loads, done.stdout.splitlines())}


def measure(built, say, ranks=2):
    program = os.path.join(built, "bench_mpi_speed")
    if not os.path.exists(program) or not shutil.which("mpirun"):
        return [row("mpi", None, "us", note="no MPI library in this build")]
    found = launch(program, ranks)
    rows = []
    for name in [n[:-len(".ratio")] for n in found if n.endswith(".ratio")]:
        ours, bare, ratio = (found[name + end] for end in ("", ".bare", ".ratio"))
        say(f"{name}: {ours:.1f} us, bare {bare:.1f}: {ours - bare:+.1f} us, {ratio:.2f} x "
            f"({found[name + '.ratio_low']:.2f} to {found[name + '.ratio_high']:.2f})")
        rows.append(row(name, ours, "us", "bare MPI", bare, 1 / ratio,
                        f"mpi: {ranks} processes on this machine, bytes that each has to send; ratios of pairs of rounds"))
    waiting = launch(program, 2, "wait", str(WAIT_S))["mpi.waiting"]
    say(f"mpi.waiting: {waiting:.1f} % of a core")
    rows.append(row("mpi.waiting", waiting, "%", note=f"mpi.waiting: of a core, by a rank that waits {WAIT_S} s"))
    return rows
