"""The demo's model, data and step in PyTorch, for `make bench`: prints one JSON object with tokens a
second. Run by run.py under Debian's python3 with the OpenMP variant of OpenBLAS in front, where
PyTorch is fastest on a CPU; the whole step's tokens go through in one batch, which suits it better
than microbatches.

    peer_pytorch.py OPTIONS.json TEXT_FILE
"""
import json
import sys
import time

import torch
import torch.nn.functional as F


def rms(x, g):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g


class Model:
    def __init__(self, o):
        self.o, self.p = o, []
        c, d, e = o["width"], o["expert-width"], o["experts"]
        self.embedding, self.head = self.new(256, c), self.new(256, c, std=c ** -0.5)
        self.final_norm = self.new(c, std=0)
        self.layers = []
        for i in range(o["layers"]):
            moe = i >= o["dense-layers"]
            f = o["shared-width"] if moe else o["dense-width"]
            layer = dict(moe=moe, norm1=self.new(c, std=0), norm2=self.new(c, std=0),
                         qkv=self.new(3 * c, c, std=c ** -0.5), proj=self.new(c, c, std=0.3 * c ** -0.5))
            if f:
                layer["mlp_in"] = self.new(2 * f, c, std=c ** -0.5)
                layer["mlp_out"] = self.new(c, f, std=0.3 * f ** -0.5)
            if moe:
                layer["router"] = self.new(e, c, std=c ** -0.5)
                layer["expert_in"] = [self.new(2 * d, c, std=c ** -0.5) for _ in range(e)]
                layer["expert_out"] = [self.new(c, d, std=0.3 * d ** -0.5) for _ in range(e)]
            self.layers.append(layer)
        half, t = c // o["heads"] // 2, o["seq"]
        angle = torch.arange(t)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.cos, self.sin = angle.cos(), angle.sin()
        self.mask = torch.full((t, t), float("-inf")).triu(1)

    def new(self, *shape, std=1.0):
        w = torch.ones(*shape) if std == 0 else torch.randn(*shape) * std
        self.p.append(w.requires_grad_())
        return w

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)

    def attention(self, x, w):
        c, h, t = self.o["width"], self.o["heads"], self.o["seq"]
        qkv = (rms(x, w["norm1"]) @ w["qkv"].T).view(-1, t, 3, h, c // h).permute(2, 0, 3, 1, 4)
        scores = self.rotate(qkv[0]) @ self.rotate(qkv[1]).transpose(-1, -2)
        y = torch.softmax(scores * (c // h) ** -0.5 + self.mask, -1) @ qkv[2]
        return x + y.transpose(1, 2).reshape(-1, c) @ w["proj"].T

    @staticmethod
    def swiglu(x, w_in, w_out):
        a, b = (x @ w_in.T).chunk(2, -1)
        return (F.silu(a) * b) @ w_out.T

    def experts(self, n, w):
        k, e, t = self.o["top-k"], self.o["experts"], self.o["seq"]
        p = torch.softmax(n @ w["router"].T, -1)
        probs, chosen = p.topk(k, -1)
        if k > 1:
            probs = probs / probs.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=e).tolist()
        rows = order // k
        parts = n[rows].split(counts)
        y = torch.cat([self.swiglu(x, w["expert_in"][i], w["expert_out"][i])
                       for i, x in enumerate(parts)])
        y = torch.zeros_like(n).index_add(0, rows, y * probs.flatten()[order][:, None])
        load = F.one_hot(chosen, e).sum(1).view(-1, t, e).sum(1)
        aux = (e / (k * t) * (load * p.view(-1, t, e).mean(1)).sum(-1)).mean()
        return y, self.o["aux-coef"] * aux

    def loss(self, ids, targets):
        x, aux = self.embedding[ids], 0
        for w in self.layers:
            x = self.attention(x, w)
            n = rms(x, w["norm2"])
            if w["moe"]:
                y, a = self.experts(n, w)
                x, aux = x + y, aux + a
            if "mlp_in" in w:
                x = x + self.swiglu(n, w["mlp_in"], w["mlp_out"])
        return F.cross_entropy(rms(x, self.final_norm) @ self.head.T, targets) + aux


def main():
    o = json.load(open(sys.argv[1]))
    if "device" in o:  # else the CPU
        torch.set_default_device(o["device"])
    text = torch.tensor(list(open(sys.argv[2], "rb").read()[:8 << 20]))
    torch.manual_seed(1)
    torch.set_num_threads(o["threads"])
    model = Model(o)
    adam = torch.optim.AdamW(model.p, lr=o["lr"], betas=(0.9, 0.95), weight_decay=0.1)
    batch, seq = o["sequences"], o["seq"]

    def step():
        at = torch.randint(len(text) - seq - 1, (batch,))
        window = torch.stack([text[i:i + seq + 1] for i in at.tolist()])
        loss = model.loss(window[:, :-1].flatten(), window[:, 1:].flatten())
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.p, 1.0)
        adam.step()
        return loss.item()

    for _ in range(5):
        step()
    times = []
    for _ in range(o["steps"]):
        begin = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - begin)
    times.sort()
    print(json.dumps({"tokens_per_s": batch * seq / times[len(times) // 2], "loss": loss,
                      "torch": torch.__version__, "parameters": sum(p.numel() for p in model.p)}))


main()
