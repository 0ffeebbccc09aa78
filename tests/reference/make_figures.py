#!/usr/bin/env python3
"""Make the figures that tests/reference/test_reference.c compares with: loss and all gradients of a
small mixture-of-experts GPT, computed by PyTorch in double precision and stored in single.

    /usr/bin/python3 tests/reference/make_figures.py tests/reference/small_moe.safetensors
    /usr/bin/python3 tests/reference/make_figures.py --mtp tests/reference/small_moe_mtp.safetensors

--mtp: with a layer of multi-token prediction (DeepSeek-V3, section 2.2).

Needs Debian's python3-torch. Nothing of Headrace is used: the model is written down again, from the
formulas. Weights and batch come from PyTorch's own generator and are stored in the file, so that a
reader needs neither PyTorch nor this script.
"""
import json
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

SHAPE = dict(layers=3, width=16, heads=2, experts=4, top_k=2, expert_width=8, dense_layers=1,
             dense_width=24, shared_width=8, seq=8)
SEQUENCES, VOCAB, AUX, MTP, EPS = 4, 256, 0.05, 0.3, 1e-5
MARGIN = 1e-3  # between the last expert chosen and the first left out


def weights(generator, mtp):
    """Name to tensor, in the names of the checkpoint."""
    c, e, d = SHAPE["width"], SHAPE["experts"], SHAPE["expert_width"]

    def normal(*shape, std):
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * std

    def gain():
        return 1 + normal(c, std=0.1)

    def layer(name, moe):
        f = SHAPE["shared_width"] if moe else SHAPE["dense_width"]
        kind = "shared" if moe else "mlp"
        w[name + "norm1"], w[name + "norm2"] = gain(), gain()
        w[name + "qkv"] = normal(3 * c, c, std=0.3)
        w[name + "proj"] = normal(c, c, std=0.2)
        w[name + kind + "_in"] = normal(2 * f, c, std=0.3)
        w[name + kind + "_out"] = normal(c, f, std=0.2)
        if moe:
            w[name + "router"] = normal(e, c, std=0.5)
            w[name + "expert_in"] = normal(e, 2 * d, c, std=0.3)
            w[name + "expert_out"] = normal(e, c, d, std=0.3)

    w = {"embedding": normal(VOCAB, c, std=1.0)}
    for i in range(SHAPE["layers"]):
        layer(f"layers.{i}.", i >= SHAPE["dense_layers"])
    w["final_norm"] = gain()
    w["head"] = normal(VOCAB, c, std=0.3)
    if mtp:
        w["mtp.embedding_norm"], w["mtp.hidden_norm"] = gain(), gain()
        w["mtp.eh_embedding"], w["mtp.eh_hidden"] = normal(c, c, std=0.2), normal(c, c, std=0.2)
        layer("mtp.", True)
        w["mtp.final_norm"] = gain()
    return {k: v.float().double().requires_grad_() for k, v in w.items()}


def norm(x, g):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * g


def rotate(x):
    """Rotary positions over [S, H, T, width]: pairs (i, i + half)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * (
        10000.0 ** (-torch.arange(half, dtype=torch.float64) / half))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def attention(x, w, name):
    """x [N, C] of whole sequences."""
    t, h, c = SHAPE["seq"], SHAPE["heads"], SHAPE["width"]
    q, k, v = (norm(x, w[name + "norm1"]) @ w[name + "qkv"].T).split(c, -1)
    q, k, v = (y.view(-1, t, h, c // h).transpose(1, 2) for y in (q, k, v))
    scores = rotate(q) @ rotate(k).transpose(-1, -2) / (c // h) ** 0.5
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    y = scores.masked_fill(~causal, float("-inf")).softmax(-1) @ v
    return x + y.transpose(1, 2).reshape(-1, c) @ w[name + "proj"].T


def swiglu(x, w_in, w_out):
    a, b = (x @ w_in.T).chunk(2, -1)
    return (F.silu(a) * b) @ w_out.T


def experts(n, w, name, sequence_weight):
    """Output, load-balance loss, and the smallest margin of a choice."""
    t, k, e = SHAPE["seq"], SHAPE["top_k"], SHAPE["experts"]
    p = (n @ w[name + "router"].T).softmax(-1)
    ranked = p.sort(-1, descending=True)
    chosen = ranked.indices[:, :k]
    probs = p.gather(-1, chosen)
    probs = probs / probs.sum(-1, keepdim=True)
    out = torch.zeros_like(n)
    for i in range(e):
        row, choice = (chosen == i).nonzero(as_tuple=True)
        y = swiglu(n[row], w[name + "expert_in"][i], w[name + "expert_out"][i])
        out = out.index_add(0, row, y * probs[row, choice][:, None])
    count = F.one_hot(chosen, e).sum(1).view(-1, t, e).sum(1).double()
    mean = p.view(-1, t, e).mean(1)
    aux = sequence_weight * (e / (k * t) * (count * mean).sum(-1)).sum()
    margin = (ranked.values[:, k - 1] - ranked.values[:, k]).min().item()
    return out, aux, margin


def layer(x, w, name, moe):
    """Output, load-balance loss, and the smallest margin of a choice."""
    x = attention(x, w, name)
    n = norm(x, w[name + "norm2"])
    if not moe:
        return x + swiglu(n, w[name + "mlp_in"], w[name + "mlp_out"]), 0.0, 1.0
    y, aux, margin = experts(n, w, name, AUX / SEQUENCES)
    return x + y + swiglu(n, w[name + "shared_in"], w[name + "shared_out"]), aux, margin


def ahead(w, hidden, targets):
    """Weighed loss of the byte after the next, load-balance loss, margin."""
    both = torch.cat([norm(w["embedding"][targets], w["mtp.embedding_norm"]),
                      norm(hidden, w["mtp.hidden_norm"])], -1)
    eh = torch.cat([w["mtp.eh_embedding"], w["mtp.eh_hidden"]], -1)
    x, aux, margin = layer(both @ eh.T, w, "mtp.", True)
    logits = norm(x, w["mtp.final_norm"]) @ w["head"].T
    t = SHAPE["seq"]  # the last place of a sequence has no byte after the next
    loss = F.cross_entropy(logits.view(-1, t, VOCAB)[:, :-1].reshape(-1, VOCAB),
                           targets.view(-1, t)[:, 1:].reshape(-1), reduction="sum")
    return MTP * loss / len(targets), aux, margin


def forward(w, ids, targets, mtp):
    """Loss, load-balance loss, loss of multi-token prediction, margin."""
    x, aux, margin = w["embedding"][ids], 0.0, 1.0
    for i in range(SHAPE["layers"]):
        x, a, m = layer(x, w, f"layers.{i}.", i >= SHAPE["dense_layers"])
        aux, margin = aux + a, min(margin, m)
    hidden = norm(x, w["final_norm"])
    loss = F.cross_entropy(hidden @ w["head"].T, targets)
    if not mtp:
        return loss, aux, torch.zeros(()), margin
    later, a, m = ahead(w, hidden, targets)
    return loss, aux + a, later, min(margin, m)


def write(path, tensors, meta):
    header, data = {"__metadata__": meta}, b""
    for name, t in tensors.items():
        a = np.ascontiguousarray(t)
        kind = {"float32": "F32", "int64": "I64"}[a.dtype.name]
        header[name] = {"dtype": kind, "shape": list(a.shape),
                        "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main(path, mtp):
    n = SEQUENCES * SHAPE["seq"]
    for seed in range(1000):
        g = torch.Generator().manual_seed(seed)
        w = weights(g, mtp)
        ids = torch.randint(VOCAB, (n,), generator=g)
        targets = torch.randint(VOCAB, (n,), generator=g)
        loss, aux, later, margin = forward(w, ids, targets, mtp)
        if margin > MARGIN:
            break
    else:
        sys.exit("no seed keeps every choice of expert clear")
    (loss + aux + later).backward()
    tensors = {"ids": ids.numpy(), "targets": targets.numpy(),
               "loss": np.float32([loss.item()]), "aux": np.float32([aux.item()])}
    if mtp:
        tensors["mtp_loss"] = np.float32([later.item()])
    for name, t in w.items():
        tensors[name] = t.detach().float().numpy()
        tensors["grad." + name] = t.grad.float().numpy()
    meta = {k: str(v) for k, v in SHAPE.items()}
    meta.update(torch=torch.__version__, seed=str(seed), sequences=str(SEQUENCES),
                aux=str(AUX), margin=f"{margin:.2e}")
    if mtp:
        meta["mtp"] = str(MTP)
    write(path, tensors, meta)
    print(f"seed {seed}, loss {loss.item():.6f}, aux {aux.item():.6f}, later {later.item():.6f}, "
          f"margin {margin:.2e}")


if __name__ == "__main__":
    main(sys.argv[-1], "--mtp" in sys.argv[1:-1])
