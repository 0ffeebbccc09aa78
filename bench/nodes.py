"""What being a node costs the issuing thread, beside a class in Python that takes the same steps; and how
often it asks the heap.
"""
import os
import statistics

from programs import lines, python, row

ROUNDS = 5
PAIR = 5  # forwards and backwards in a layer pair's ten nodes


def speed(built, here, say):
    mine, theirs, why = [], [], None
    for i in range(ROUNDS):
        mine.append(lines(os.path.join(built, "bench_node_speed")))
        if why is None:
            peer, why = python(here, "peer_node.py")
            theirs += [peer["ns"]] if peer else []
        say(f"node {i + 1}/{ROUNDS}: {mine[-1]['node.forward_backward']:.0f} ns, "
            + (f"Python {theirs[-1]:.0f} ns" if theirs else f"Python absent: {why}"))
    node, pair = (statistics.median(m[name] for m in mine)
                  for name in ("node.forward_backward", "node.layer_pair"))
    python_ns = statistics.median(theirs) if theirs else None
    note = None if theirs else f"PyTorch skipped: {why}"
    return [row("node.forward_backward", node, "ns", "python", python_ns,
                python_ns and python_ns / node, note),
            row("node.layer_pair", pair, "ns", f"{PAIR} python nodes", python_ns and PAIR * python_ns,
                python_ns and PAIR * python_ns / pair, note)]


def heap(built):
    calls = lines(os.path.join(built, "bench_node_heap"))
    return [row("node.heap_allocations", max(calls["node"], calls["pair"]), "per node", "wanted", 0),
            row("plan.heap_allocations", calls["plan"], "per plan", "wanted", 0,
                note="node.heap_allocations: calls while nodes run; plan.heap_allocations: making, "
                     f"running and destroying the plan of a microbatch of {calls['plan nodes']:.0f} nodes")]


def measure(built, here, say):
    return speed(built, here, say) + heap(built)
