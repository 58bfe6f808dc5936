#!/usr/bin/env python3
"""What the width between normalizations of a trained transformer costs beside feed-forward columns (docs/adr/0070).

    tests/judge/residual_width.py DATA      (needs numpy, onnx, onnxruntime)

stories260k_a of DATA (as INFER_TEST_DATA) as numpy computes it: 48 sequences fit, 32 judge, all sampled from the model. Channels
of the width leave embedding, normalizations (RMS) and all products, as they are (those that cost their readers least) or after
the rotation to principal components that leaves the model as it was; or columns leave every feed-forward net, one by one by what
they cost. Each product is then fitted by least squares, first to last, to what it makes in the dense model. Told is the share of
the products' FLOPs that stays, the Kullback-Leibler divergence per token, the share of equal first choices, and the SQNR."""
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["INFER_TEST_DATA"] = sys.argv[1]

import model_data  # noqa: E402
from judging import np, onnx  # noqa: E402

LAYERS, HEADS, KEY_HEADS, SIZE, WIDTH, INNER, TOKENS = 5, 8, 4, 8, 64, 172, 512
EPSILON, DAMPING = 1e-5, 1e-3
PATH = os.path.join(sys.argv[1], "models/stories260k_a/model.onnx")
CONSTANTS = {i.name: onnx.numpy_helper.to_array(i).astype(np.float64) for i in onnx.load(PATH).graph.initializer}
QKV, UP = (("wq", "q"), ("wk", "k"), ("wv", "v")), (("w1", "u"), ("w3", "g"))


def dense_weights():
    """The scales of normalizations multiply the rows of what reads them."""
    w = {"emb": CONSTANTS["tok_embeddings"], "out": CONSTANTS["final_norm"][:, None] * CONSTANTS["lm_head"]}
    for l in range(LAYERS):
        of = lambda name: CONSTANTS[f"layers.{l}.{name}"]
        for name, _ in QKV:
            w[f"{l}.{name}"] = of("attn_norm")[:, None] * of(name)
        for name, _ in UP:
            w[f"{l}.{name}"] = of("ffn_norm")[:, None] * of(name)
        w[f"{l}.wo"], w[f"{l}.w2"] = of("wo"), of("w2")
    return w


def sequences(count, seed):
    return model_data.samples("stories260k_a", PATH, count, seed)["input_ids"].reshape(count, -1)


def rotated(x):
    """Rotary positions, pairs of neighbours."""
    length = x.shape[1]
    c, s = (CONSTANTS[n][:length][None, :, None] for n in ("rope_cos", "rope_sin"))
    a, b = np.moveaxis(x.reshape(*x.shape[:-1], SIZE // 2, 2), -1, 0)
    return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)


def attention(q, k, v):
    rows, length, _ = q.shape
    q = rotated(q.reshape(rows, length, HEADS, SIZE))
    k = np.repeat(rotated(k.reshape(rows, length, KEY_HEADS, SIZE)), HEADS // KEY_HEADS, 2)
    v = np.repeat(v.reshape(rows, length, KEY_HEADS, SIZE), HEADS // KEY_HEADS, 2)
    s = np.einsum("bshe,bthe->bhst", q, k) / np.sqrt(SIZE)
    s = np.where(np.tril(np.ones((length, length))) > 0, s, -1e9)
    s = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhst,bthe->bshe", s / s.sum(-1, keepdims=True), v).reshape(rows, length, HEADS * SIZE)


def normalized(h):
    return h / np.sqrt((h * h).mean(-1, keepdims=True) + EPSILON)


def gated(u, g):
    return u / (1 + np.exp(-u)) * g


def run(w, ids):
    """What each product makes; of those that are added to the width the sum."""
    h = w["emb"][ids]
    made = {"first": h}
    for l in range(LAYERS):
        n = normalized(h)
        for name, key in QKV:
            made[f"{l}.{key}"] = n @ w[f"{l}.{name}"]
        h = made[f"{l}.attended"] = h + attention(*(made[f"{l}.{key}"] for _, key in QKV)) @ w[f"{l}.wo"]
        n = normalized(h)
        for name, key in UP:
            made[f"{l}.{key}"] = n @ w[f"{l}.{name}"]
        h = made[f"{l}.fed"] = h + gated(made[f"{l}.u"], made[f"{l}.g"]) @ w[f"{l}.w2"]
    made["out"] = normalized(h) @ w["out"]
    return made


def fitted(x, y, near):
    """Least squares, damped towards `near`."""
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    g = x.T @ x
    damped = DAMPING * np.trace(g) / len(g)
    return np.linalg.solve(g + damped * np.eye(len(g)), x.T @ y + damped * near)


def kept_columns(z, w, count):
    """Columns one by one by what they cost w once the others make up for them (Optimal Brain Surgeon)."""
    g = z.reshape(-1, z.shape[-1])
    g = g.T @ g
    inverse, kept, w = np.linalg.inv(g + DAMPING * np.trace(g) / len(g) * np.eye(len(g))), list(range(len(g))), w.copy()
    while len(kept) > count:
        j = int(np.argmin((w[kept]**2).sum(1) / np.diag(inverse)))
        row = inverse[j] / inverse[j, j]
        w[kept] -= np.outer(row, w[kept[j]])
        inverse = inverse - np.outer(inverse[:, j], row)
        inverse = np.delete(np.delete(inverse, j, 0), j, 1)
        kept.pop(j)
    return kept, w[kept]


def basis(w, made, width, principal):
    """[WIDTH, width]: what of the width stays."""
    keys = ["first"] + [f"{l}.{k}" for l in range(LAYERS) for k in ("attended", "fed")]
    n = normalized(np.concatenate([made[k].reshape(-1, WIDTH) for k in keys]))
    if principal:
        return np.linalg.eigh(n.T @ n)[1][:, ::-1][:, :width]
    readers = [(f"{l}.{a}", f"{l}.{b}") for l in range(LAYERS) for a, b in QKV + UP] + [("out", "out")]
    cost = sum((w[a]**2).sum(1) / (made[b]**2).mean((0, 1)).sum() for a, b in readers) * (n * n).mean(0)
    return np.eye(WIDTH)[:, np.sort(np.argsort(-cost)[:width])]


def narrowed(w, ids, width=WIDTH, inner=INNER, principal=False):
    made = run(w, ids)
    b = basis(w, made, width, principal) if width < WIDTH else np.eye(WIDTH)
    small = {"emb": w["emb"] @ b}
    h = small["emb"][ids]
    for l in range(LAYERS):
        n = normalized(h)
        for name, key in QKV:
            small[f"{l}.{name}"] = fitted(n, made[f"{l}.{key}"], b.T @ w[f"{l}.{name}"])
        a = attention(*(n @ small[f"{l}.{name}"] for name, _ in QKV))
        small[f"{l}.wo"] = fitted(a, made[f"{l}.attended"] @ b - h, w[f"{l}.wo"] @ b)
        h = h + a @ small[f"{l}.wo"]
        n = normalized(h)
        for name, key in UP:
            small[f"{l}.{name}"] = fitted(n, made[f"{l}.{key}"], b.T @ w[f"{l}.{name}"])
        z, down = gated(*(n @ small[f"{l}.{name}"] for name, _ in UP)), w[f"{l}.w2"] @ b
        if inner < INNER:
            kept, down = kept_columns(z, down, inner)
            z = z[..., kept]
            for name, _ in UP:
                small[f"{l}.{name}"] = small[f"{l}.{name}"][:, kept]
        small[f"{l}.w2"] = fitted(z, made[f"{l}.fed"] @ b - h, down)
        h = h + z @ small[f"{l}.w2"]
    small["out"] = fitted(normalized(h), made["out"], b.T @ w["out"])
    return small


def work(width, inner):
    return LAYERS * width * (2 * HEADS * SIZE + 2 * KEY_HEADS * SIZE + 3 * inner) + width * TOKENS


def logarithms(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def main():
    w, fit, judge = dense_weights(), sequences(48, 1), sequences(32, 2)
    golden = run(w, judge)["out"]
    print("| what leaves | FLOPs of products stay | KL | same token | SQNR dB |\n|---|---|---|---|---|")
    ways = [(f"width {WIDTH} to {k}{', rotated' if p else ''}", {"width": k, "principal": p}) for k in (60, 56, 48, 40)
            for p in (False, True)] + [(f"columns {INNER} to {f}", {"inner": f}) for f in (156, 140, 108, 76)]
    for name, options in ways:
        out = run(narrowed(w, fit, **options), judge)["out"]
        was, now = logarithms(golden), logarithms(out)
        share = work(options.get("width", WIDTH), options.get("inner", INNER)) / work(WIDTH, INNER)
        print(f"| {name} | {100 * share:.0f} % | {(np.exp(was) * (was - now)).sum(-1).mean():.2f} | "
              f"{100 * (out.argmax(-1) == golden.argmax(-1)).mean():.0f} % | "
              f"{10 * np.log10((golden**2).sum() / ((golden - out)**2).sum()):.1f} |", flush=True)


if __name__ == "__main__":
    main()
