"""A schedule node in Python on PyTorch, for `make bench`: the steps of hr_node_forward() and
hr_node_backward() one for one, on a node that returns a view. There is no CUDA device here, so
events, streams and ranges are objects whose methods do nothing: what is timed is Python and
PyTorch's host side alone, which flatters it. Prints one JSON object: nanoseconds a node.

    peer_node.py [--version]
"""
import contextlib
import json
import sys
import time

import torch

torch.set_num_threads(1)
NODES, ROUNDS = 256, 101
run_backward = torch.autograd.Variable._execution_engine.run_backward


class Event:
    def wait(self, stream):
        pass

    def record(self, stream):
        pass


class Stream:
    """Becomes current in a `with`."""
    current = None

    def __enter__(self):
        self.previous, Stream.current = Stream.current, self

    def __exit__(self, *failure):
        Stream.current = self.previous

    def mark(self, tensor):
        pass


def push(name):
    pass


def pop():
    pass


class Viewless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        out = torch.empty((1,), dtype=t.dtype, requires_grad=t.requires_grad)
        out.data = t.data
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad


def viewless(t):
    """The same storage and place in the graph, no base."""
    return t if t._base is None else Viewless.apply(t)


class Node:
    def __init__(self, function, stream, event, name, free_input=False):
        self.function, self.name, self.free_input = function, name, free_input
        self.lazy_stream, self.stream, self.event = stream, None, event
        self.inputs = self.outputs = None
        self.spent = False

    @contextlib.contextmanager
    def acquire(self, what):
        """Wait, push, enter ... exit, pop, record; also where the body fails."""
        if self.stream is None:
            self.stream = self.lazy_stream()
        self.event.wait(self.stream)
        push(f"{self.name} {what}")
        try:
            with self.stream:
                yield
        finally:
            pop()
            self.event.record(self.stream)

    def forward(self, *inputs):
        if self.spent:
            raise RuntimeError(f"node '{self.name}' forward: its backward has run")
        with self.acquire("forward"):
            self.inputs = [None if t is None else viewless(t).detach() for t in inputs]
            for own, given in zip(self.inputs, inputs):
                if given is not None:
                    own.requires_grad = given.requires_grad
            made = self.function(*self.inputs)
            if not isinstance(made, tuple):
                made = (made,)
            self.outputs = tuple(viewless(t) if isinstance(t, torch.Tensor) else t for t in made)
        if self.free_input:
            for t in inputs:
                if t is not None:
                    self.stream.mark(t)
                    t.untyped_storage().resize_(0)
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def backward(self, *grads):
        if self.spent:
            raise RuntimeError(f"node '{self.name}' backward: its backward has run")
        with self.acquire("backward"):
            if len(grads) != len(self.outputs):
                raise ValueError(f"node '{self.name}' backward: {len(self.outputs)} outputs but "
                                 f"{len(grads)} output gradients")
            run_backward(self.outputs, grads, False, False, tuple(), allow_unreachable=True,
                         accumulate_grad=True)
        for g in grads:
            if g is not None:
                self.stream.mark(g)
        found = tuple(None if t is None else t.grad for t in self.inputs)
        self.inputs = self.outputs = self.function = None
        self.spent = True
        return found[0] if len(found) == 1 else found


def main():
    if "--version" in sys.argv:
        print(json.dumps({"torch": torch.__version__}))
        return
    stream, event = Stream(), Event()
    x = torch.zeros(16, 32, requires_grad=True)
    dy = torch.zeros(16, 32)

    def view(t):
        return t.view(16, 32)

    times = []
    for _ in range(ROUNDS):
        nodes = [Node(view, lambda: stream, event, "view") for _ in range(NODES)]
        start = time.perf_counter_ns()
        for node in nodes:
            node.forward(x)
            node.backward(dy)
        times.append((time.perf_counter_ns() - start) / NODES)
    times.sort()
    print(json.dumps({"ns": times[len(times) // 2], "least": times[0], "torch": torch.__version__}))


main()
