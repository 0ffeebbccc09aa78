"""CUDA's libraries on a machine whose loader does not know them: those of a toolkit, or of a Python package (which is
where PyTorch has its own).
"""
import glob
import os
import shutil
import subprocess
import sys

WANTED = {"HEADRACE_CUDART": ("libcudart.so.13", "libcudart.so.12"),
          "HEADRACE_CUBLAS": ("libcublas.so.13", "libcublas.so.12"), "HEADRACE_NCCL": ("libnccl.so.2",)}


def loads(name, env):
    look = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({name!r})"]
    return subprocess.run(look, env=env, capture_output=True, timeout=60, check=False).returncode == 0


def folders():
    homes = [h for h in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if h]
    homes += sorted(glob.glob("/usr/local/cuda*"), reverse=True)
    for home in homes:
        yield os.path.join(home, "lib64")
    for python in filter(None, (sys.executable, shutil.which("python3"))):
        prefix = os.path.dirname(os.path.dirname(python))
        yield from sorted(glob.glob(f"{prefix}/lib/python3*/*-packages/nvidia/*/lib"))


def find(env):
    """Names in `env` what would not be found else; tells what it named."""
    named = {}
    for variable, names in WANTED.items():
        if env.get(variable) or any(loads(name, env) for name in names):
            continue
        there = [p for folder in folders() for name in names for p in glob.glob(os.path.join(folder, name))]
        named.update({variable: path for path in there[:1]})
    env.update(named)
    return named
