"""What a GPU is measured by in C: nodes, launches, overlap of two streams."""
import json


def figures(check, words, env=None):
    """Name to value, of a program that prints {"name", "value", "unit"} a line; None where it failed."""
    ended = check.run(words, env=env)
    if ended.why:
        check.row(words[0].rpartition("/")[2], "failed", ended.why)
        return None
    rows = [json.loads(line) for line in ended.out.splitlines()]
    return {row["name"]: (row["value"], row["unit"]) for row in rows}


def nodes(check):
    rounds = ["2"] if check.double else []
    program = check.program("bench", "bench_node_speed")
    on_gpu = figures(check, [program, "cuda", *rounds])
    on_host = figures(check, [program, "host", *rounds]) if on_gpu else None
    for name in ("node.forward_backward", "node.layer_pair") if on_host else ():
        value, unit = on_gpu[name]
        check.row(name, "measured", "of the issuing thread; nodes that launch nothing", value, unit, "on host streams",
                  on_host[name][0])


def launches(check):
    sizes = ["16", "2"] if check.double else ["1024", "31"]
    found = figures(check, [check.program("bench", "bench_gpu_launches"), "cuda", *sizes])
    notes = {"kernel.in_a_row": f"a product of {sizes[0]} x {sizes[0]}",
             "gap.median": "on the timeline, which puts two events between two kernels"}
    for name, (value, unit) in (found or {}).items():
        check.row(name, "measured", notes.get(name, ""), value, unit)


def overlap(check):
    sizes = ["16", "1", "2"] if check.double else ["2048", "64", "15"]
    found = figures(check, [check.program("bench", "bench_gpu_overlap"), "cuda", *sizes])
    notes = {"overlap.hidden": f"products of {sizes[0]} x {sizes[0]} beside copies of {sizes[1]} MiB within the GPU"}
    for name, (value, unit) in (found or {}).items():
        check.row(name, "measured", notes.get(name, ""), value, unit)
