"""All-to-all and messages over the MPI engine, beside bare MPI calls of the same sizes and processes."""
import json
import os
import shutil
import subprocess

from programs import last, row

LIMIT_S = 120
LAUNCH = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
          "OMPI_MCA_hwloc_base_binding_policy": "none"}


def measure(built, say, ranks=2):
    program = os.path.join(built, "bench_mpi_speed")
    if not os.path.exists(program) or not shutil.which("mpirun"):
        return [row("mpi", None, "us", note="no MPI library in this build")]
    done = subprocess.run(["mpirun", "-n", str(ranks), program], capture_output=True, text=True,
                          timeout=LIMIT_S, env={**os.environ, **LAUNCH})
    if done.returncode != 0:
        raise SystemExit(f"bench: {program} failed: {last(done.stderr)}")
    found = {r["name"]: r["value"] for r in map(json.loads, done.stdout.splitlines())}
    rows = []
    for name, ours in found.items():
        what, size = name.rsplit(".", 1)
        bare = found.get(f"{what}.bare.{size}")
        if bare is not None:
            say(f"{name}: {ours:.1f} us, bare {bare:.1f}")
            rows.append(row(f"{what}.{size}", ours, "us", "bare MPI", bare, ours / bare,
                            f"mpi: {ranks} processes on this machine, bytes that leave each"))
    return rows
