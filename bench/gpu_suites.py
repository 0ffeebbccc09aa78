"""The suites that run on a GPU: programs of the tests that open the device which HEADRACE_DEVICE names, in its own
memory, or in managed memory where they look into it from the host.
"""
import os
import re

UNIT, CONFORM = ("tests", "unit"), ("tests", "conform")
# Operators against plain loops in double and finite differences, and what looks at no memory itself.
IN_DEVICE_MEMORY = ("row_ops", "products", "attention", "routing_ops", "slack", "optimizer", "storage", "tensor",
                    "view", "contents", "node_hooks", "handed_grads", "comm_stream", "stage_grad")
IN_MANAGED_MEMORY = ("device_fail", "memory_pool", "device_spans", "stream_check", "random_programs", "event_mistakes",
                     "memory_mistakes", "engine", "engine_failure", "wgrad_queue", "node")
# Host kernels of two streams wait for each other there, for which CUDA has no promise.
MAY_HANG = ("stream", "event")
MAY_HANG_S = 8
LEFT_OUT = ("group_mistakes", "dispatch_order", "dispatcher", "zero_copy", "staged_dispatch", "conformance of groups")
LIMIT_S = 30  # of one


def targets():
    return [f"test_unit_{noun}" for noun in (*IN_DEVICE_MEMORY, *IN_MANAGED_MEMORY, *MAY_HANG)] + ["conform_megatron"]


def verdict(check, name, ended):
    if ended.why is None:
        check.row(name, "passed")
    elif ended.status == 77:
        check.row(name, "skipped", last_of(ended.out))
    else:
        failed = list(dict.fromkeys(re.findall(r"\[  FAILED  \] (\w+)$", ended.out, re.M)))
        check.row(name, "failed", ", ".join(failed[:3]) or ended.why)


def last_of(text):
    return (text.strip().splitlines() or ["no reason given"])[-1]


def managed_memory(check):
    """Why there is none, or None."""
    on, told = check.told(env={"HEADRACE_CUDA_MEMORY": "managed"})
    return None if on else told


def run(check):
    if not os.path.isdir(check.program(*UNIT)):
        check.row("suites", "skipped", "the tests are not built (they want cmocka)")
        return
    for noun in IN_DEVICE_MEMORY:
        verdict(check, noun, check.run([check.program(*UNIT, f"test_unit_{noun}")], LIMIT_S,
                                       {"HEADRACE_DEVICE": "cuda"}))
    why = managed_memory(check)
    if why:
        check.row("managed memory", "skipped", f"{why}; {len(IN_MANAGED_MEMORY) + 1} suites want it")
        return
    managed = {"HEADRACE_DEVICE": "cuda", "HEADRACE_CUDA_MEMORY": "managed"}
    for noun in IN_MANAGED_MEMORY:
        verdict(check, noun, check.run([check.program(*UNIT, f"test_unit_{noun}")], LIMIT_S, managed))
    recorded = {"HEADRACE_CHECK": "streams", "HEADRACE_CONFORMANCE": "tests/conform/data/megatron", **managed}
    ended = check.run([check.program(*CONFORM, "conform_megatron")], LIMIT_S, recorded)
    verdict(check, "recordings of Megatron", ended)


def run_waits(check):
    """Last of all, as they may hang; that they do is no failure, but worth knowing."""
    managed = {"HEADRACE_DEVICE": "cuda", "HEADRACE_CUDA_MEMORY": "managed"}
    for noun in MAY_HANG:
        if not os.path.exists(check.program(*UNIT, f"test_unit_{noun}")):
            check.row(noun, "skipped", "the tests are not built (they want cmocka)")
            continue
        ended = check.run([check.program(*UNIT, f"test_unit_{noun}")], MAY_HANG_S, managed)
        if ended.hung:
            check.row(noun, "skipped", f"{ended.why}: as it may where host functions of two streams run in turns")
        else:
            verdict(check, noun, ended)
    for name in LEFT_OUT:
        check.row(name, "skipped", "left out: host kernels of its ranks wait for each other")
