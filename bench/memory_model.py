"""What an overlapped step has to keep, from shapes alone: bytes after a microbatch's forward, and at the
highest point while the forward of one microbatch runs beside the backward of another. A ledger of names and
bytes goes through the slots in the order in which a plan issues them; nothing here knows the library.

Letters: N tokens, C width, H heads, E experts, K choices a token, D width of an expert; M = N K rows sent,
R rows received (M again, as every token goes to every expert), L local experts. All numbers have 4 bytes but
the limits of the experts' rows, which have 8.
"""


class Ledger:
    def __init__(self):
        self.live, self.now, self.peak = {}, 0, 0

    def take(self, who, **bytes_of):
        for name, size in bytes_of.items():
            assert (who, name) not in self.live, (who, name)
            self.live[who, name] = size
            self.now += size
            self.peak = max(self.peak, self.now)

    def give(self, who, *names):
        for name in names:
            self.now -= self.live.pop((who, name))


class Layer:
    """One layer of one microbatch. Gradients are named d...; `frees`: inputs of slots go when their forward
    has run, as the all-to-all dispatcher with several local experts allows."""

    def __init__(self, ledger, who, shape, frees):
        n, c, k = shape["N"], shape["C"], shape["K"]
        m, local = n * k, shape["E"] // shape["ranks"]
        b = self.b = {"NC": n * c, "NH": n * shape["H"], "NE": n * shape["E"], "M": m, "MC": m * c,
                      "R": m, "RC": m * c, "RD": m * shape["D"],
                      "counts": shape["ranks"] * shape["E"], "experts": shape["E"],
                      "limits": 2 * (local + 1), "record": 6 + local}
        for name in b:
            b[name] *= 4
        self.ledger, self.who, self.frees = ledger, who, frees

    def take(self, **sizes):
        self.ledger.take(self.who, **{name: factor * self.b[letters]
                                      for name, (factor, letters) in sizes.items()})

    def give(self, *names):
        self.ledger.give(self.who, *names)

    # ---- forward: what is taken and not given is saved
    def pre(self):
        self.take(norm1=(1, "NC"), qkv=(3, "NC"), attention=(1, "NC"), lse=(1, "NH"),
                  projected=(1, "NC"), residual=(1, "NC"))
        self.give("projected")
        self.take(norm2=(1, "NC"), logits=(1, "NE"), probs=(1, "M"), index=(1, "M"))
        self.take(source=(1, "M"), slot=(1, "M"), own_counts=(1, "experts"), counts=(1, "counts"))
        self.take(tokens=(1, "MC"), token_probs=(1, "M"))
        self.give("own_counts", "probs")

    def dispatch(self):
        self.take(received=(1, "RC"), received_probs=(1, "R"))
        if self.frees:
            self.give("tokens", "token_probs")

    def mlp(self):
        self.take(order_source=(1, "R"), order_slot=(1, "R"), sorted=(1, "RC"), sorted_probs=(1, "R"))
        self.take(limits_in=(1, "limits"), up=(2, "RD"), hidden=(1, "RD"), limits_out=(1, "limits"))
        self.take(down=(1, "RC"), unsorted=(1, "RC"))
        self.give("down")
        if self.frees:
            self.give("received")

    def combine(self):
        self.take(back=(1, "MC"), sum=(1, "NC"))
        self.give("back")
        self.take(out=(1, "NC"))
        self.give("sum")
        if self.frees:
            self.give("unsorted")

    # ---- backward: what comes in is d_out of the layer after, or of this layer's slot after
    def combine_back(self, give_incoming, out_is_gone):
        self.take(d_residual=(1, "NC"), d_back=(1, "MC"), d_unsorted=(1, "RC"))
        self.give("d_back")
        give_incoming()
        self.give(*[] if out_is_gone else ["out"])

    def mlp_back(self):
        self.take(d_down=(1, "RC"), d_hidden=(1, "RD"), d_up=(2, "RD"), d_sorted_probs=(1, "R"))
        self.give("up", "sorted_probs", "d_hidden")
        self.take(d_sorted=(1, "RC"), d_received_probs=(1, "R"))
        self.give("d_sorted_probs")
        self.take(d_received=(1, "RC"))
        self.give("d_sorted", "d_unsorted", *[] if self.frees else ["unsorted"])

    def mlp_weights(self):
        self.give("d_down", "hidden", "limits_out", "d_up", "sorted", "limits_in")

    def dispatch_back(self):
        self.take(d_token_probs=(1, "M"), d_tokens=(1, "MC"))
        self.give("d_received", "received_probs", "d_received_probs",
                  *[] if self.frees else ["received"])

    def pre_back(self):
        self.take(d_probs=(1, "M"), d_norm2=(1, "NC"), d_logits=(1, "NE"))
        self.give("logits", "index", "d_probs")
        self.take(d_norm2_routed=(1, "NC"))
        self.give("d_norm2_routed", "norm2", "d_logits")
        self.take(d_inner=(1, "NC"))
        self.give("d_norm2")
        self.take(d_attention=(1, "NC"), d_qkv=(3, "NC"))
        self.give("qkv", "lse", "d_attention")
        self.take(d_norm1=(1, "NC"), d_in=(1, "NC"))
        self.give("d_norm1", "d_tokens", "d_token_probs", "residual", "d_residual",
                  *[] if self.frees else ["tokens", "token_probs"])

    def pre_weights(self):
        self.give("d_inner", "attention", "d_qkv", "norm1")

    def end(self):
        self.give("source", "slot", "counts", "order_source", "order_slot")


class SymmetricLayer(Layer):
    """The same with the symmetric dispatcher at capacity factor 1: tokens arrive in a buffer P, sorted; the
    experts write F, and gradients land in B. All three stay from step to step. What `dispatch` sends stays
    until `pre` runs backward: the policy frees nothing here but what lies in a buffer anyway."""

    def buffers(self, layers):
        """F, B, and a P a layer in flight: those of one microbatch, and the first of the next, which is taken
        before the last one is given back. And the record of an overflow."""
        self.take(F=(1, "RC"), B=(1, "RC"), B_weights=(1, "R"), P=(layers + 1, "RC"),
                  P_weights=(layers + 1, "R"), overflow=(1, "record"))

    def pre(self):
        super().pre()
        self.take(limits=(1, "limits"))

    def dispatch(self):
        pass

    def mlp(self):
        self.take(up=(2, "RD"), hidden=(1, "RD"))

    def combine(self):
        self.take(back=(1, "MC"), sum=(1, "NC"))
        self.give("back")
        self.take(out=(1, "NC"))
        self.give("sum")

    def combine_back(self, give_incoming, out_is_gone):
        self.take(d_residual=(1, "NC"), d_back=(1, "MC"), d_down=(1, "RC"))
        self.give("d_back")
        give_incoming()
        self.give(*[] if out_is_gone else ["out"])

    def mlp_back(self):
        self.take(d_hidden=(1, "RD"), d_up=(2, "RD"), d_received_probs=(1, "R"))
        self.give("up", "d_hidden")
        self.take(d_received=(1, "RC"))

    def mlp_weights(self):
        self.give("d_down", "hidden", "d_up")

    def dispatch_back(self):
        self.take(d_token_probs=(1, "M"), d_tokens=(1, "MC"))
        self.give("d_received", "d_received_probs")

    def pre_back(self):
        super().pre_back()
        if self.frees:
            self.give("tokens", "token_probs")

    def end(self):
        self.give("source", "slot", "counts", "limits")


def pair(f, b, early, incoming, last):
    """The order of a plan's layer pair; either may be None. `incoming`: gives the gradient that comes in."""
    if b:
        b.combine_back(*incoming)
    if f:
        f.pre()
    if b:
        b.mlp_back()
    if f:
        f.dispatch()
    if b:
        b.mlp_weights()
        b.dispatch_back()
        if early:
            b.pre_back()
    if f:
        f.mlp()
        f.combine()
    if b:
        if not early:
            b.pre_back()
        if not last:
            b.pre_weights()
            b.end()


def predict(shape, frees=True, early=True):
    """Bytes saved by a microbatch's forward, and the peak of the step that follows."""
    ledger = Ledger()
    count = int(shape["layers"])
    kind = SymmetricLayer if shape["symmetric"] else Layer

    def microbatch(m):
        return [kind(ledger, (m, i), shape, frees) for i in range(count)]

    first = microbatch(0)
    if kind is SymmetricLayer:
        first[0].buffers(count)
    for layer in first:
        pair(layer, None, early, None, False)
    first[-1].give("out")  # the loss has it
    saved = ledger.now
    second = microbatch(1)
    for i in range(count):
        b, last_layer = first[count - 1 - i], i == 0
        after = None if last_layer else first[count - i]
        incoming = (lambda: None) if last_layer else (lambda after=after: after.give("d_in"))
        pair(second[i], b, early, (incoming, last_layer), i == count - 1)
    first[0].pre_weights()
    first[0].end()
    ledger.take("step", d_input=first[0].b["NC"])
    return saved, ledger.peak
