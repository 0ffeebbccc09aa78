"""Replay of a recorded step: the nodes in the order in which they were issued, each with the time that it
takes alone, on streams that cost nothing. Its makespan is the step's critical path; what it hides
of its communication is the most that this order can hide.

Rules: a stream runs its nodes in order; nodes of one microbatch run one after the other (their plan's
event), but for weight gradients, which wait for nothing; a transfer starts when all ranks are there.
"""
import collections
import json

LANES = ("compute", "communication")


class Trace:
    """Spans of one step, from the trace.json of the program."""

    def __init__(self, path):
        with open(path) as f:
            events = json.load(f)["traceEvents"]
        lane = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
                if e["ph"] == "M" and e["name"] == "thread_name"}
        self.spans = collections.defaultdict(list)  # (rank, lane, kind) to spans in order
        for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
            self.spans[e["pid"], lane[e["pid"], e["tid"]], e["cat"]].append(e)
        self.ranks = sorted({rank for rank, _, _ in self.spans})

    def nodes(self, rank, lane):
        return self.spans[rank, lane, "node"]

    def seconds(self):
        """From the first node to the last, over all ranks."""
        nodes = [e for (_, _, kind), spans in self.spans.items() if kind == "node" for e in spans]
        return (max(e["ts"] + e["dur"] for e in nodes) - min(e["ts"] for e in nodes)) * 1e-6

    def inside(self, rank, lane, kind, node):
        end = node["ts"] + node["dur"]
        return [e for e in self.spans[rank, lane, kind] if node["ts"] <= e["ts"] < end]


def key(node):
    a = node["args"]
    return node["name"], a["direction"], a.get("layer", -1), a.get("microbatch", -1)


def is_transfer(node):
    return node["name"] in ("moe_dispatch", "moe_combine")


def times_alone(serial):
    """(rank, node) to seconds, from a run in which all was issued to one stream. A transfer's time is
    from the arrival of the last rank, with the arithmetic around it."""
    alone = {}
    for rank in serial.ranks:
        for node in serial.nodes(rank, "compute"):
            t = node["dur"]
            if is_transfer(node):
                t -= sum(e["dur"] for e in serial.inside(rank, "compute", "peers", node))
            alone[(rank, *key(node))] = max(t, 0) * 1e-6
    return alone


def replay(overlapped, alone):
    """Seconds of the step, and the share of communication that it hides (rank 0)."""
    queue = {(r, lane): collections.deque(overlapped.nodes(r, lane))
             for r in overlapped.ranks for lane in LANES}
    chain = {}  # (rank, microbatch) to its nodes in order: the order of their starts
    for r in overlapped.ranks:
        nodes = [n for lane in LANES for n in overlapped.nodes(r, lane)
                 if n["args"]["direction"] != "wgrad" and n["args"].get("microbatch", -1) >= 0]
        for n in sorted(nodes, key=lambda n: n["ts"]):
            chain.setdefault((r, n["args"]["microbatch"]), collections.deque()).append(key(n))
    free = dict.fromkeys(queue, 0.0)
    ready = collections.defaultdict(float)
    busy = collections.defaultdict(list)

    def startable(r, lane):
        """When the first node of the queue could start; None if it has to wait for another."""
        if not queue[r, lane]:
            return None
        n = queue[r, lane][0]
        mb = n["args"].get("microbatch", -1)
        if n["args"]["direction"] == "wgrad" or mb < 0:
            return free[r, lane]
        return max(free[r, lane], ready[r, mb]) if chain[r, mb][0] == key(n) else None

    def finish(r, lane, start, seconds):
        n = queue[r, lane].popleft()
        end = free[r, lane] = start + seconds
        busy[r, lane].append((start, end))
        mb = n["args"].get("microbatch", -1)
        if n["args"]["direction"] != "wgrad" and mb >= 0:
            chain[r, mb].popleft()
            ready[r, mb] = end

    while any(queue.values()):
        moved = False
        for r in overlapped.ranks:
            start = startable(r, "compute")
            if start is not None:
                n = queue[r, "compute"][0]
                finish(r, "compute", start, alone.get((r, *key(n)), n["dur"] * 1e-6))
                moved = True
        starts = [startable(r, "communication") for r in overlapped.ranks]
        if all(s is not None for s in starts):
            length = max(alone[(r, *key(queue[r, "communication"][0]))] for r in overlapped.ranks)
            for r in overlapped.ranks:
                finish(r, "communication", max(starts), length)
            moved = True
        if not moved:
            raise SystemExit("replay: the recorded order cannot run")
    return max(free.values()), hidden(busy[0, "communication"], busy[0, "compute"])


def hidden(transfers, compute):
    total = sum(end - begin for begin, end in transfers)
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in transfers for b in compute)
    return both / total if total else 0.0
