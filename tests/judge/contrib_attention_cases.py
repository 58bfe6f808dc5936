"""Small models of ONNX Runtime's attention operators, with fixed seeds; see contrib_operators.py."""

from contrib_cases import F16, F32, Case, np


def real(r, *shape):
    return r.normal(size=shape).astype(np.float32)


def padding(r, batch, *shape):
    """A mask that hides some keys but never all of a row."""
    mask = (r.random((batch,) + shape) < 0.7).astype(np.int32)
    mask[..., 0] = 1
    return mask


def multi_head_cases():
    out = []

    def add(label, operands, outputs=1, attrs=None):
        operands = [("i%d" % i, o) if o is not None else None for i, o in enumerate(operands)]
        types = [F32] * outputs if isinstance(outputs, int) else outputs
        out.append(Case("MultiHeadAttention", label, operands, types, dict(attrs or {}, num_heads=n)))

    n = 2
    for seed in range(3):
        r = np.random.default_rng(seed)
        n, b, s, l, size, v_size = ((2, 2, 3, 5, 4, 4), (3, 1, 4, 4, 8, 5), (1, 2, 1, 7, 16, 16))[seed]
        d, e = n * size, n * v_size
        q, k, v = real(r, b, s, d), real(r, b, l, d), real(r, b, l, e)
        bias = real(r, 2 * d + e)
        add("plain", [q, k, v])
        add("bias", [q, k, v, bias])
        add("no bias, scale", [q, k, v], attrs={"scale": 0.3})
        add("presents of no past", [q, k, v, bias], outputs=3)
        add("lengths", [q, k, v, bias, r.integers(1, l + 1, b).astype(np.int32)])
        add("mask [B,L]", [q, k, v, bias, padding(r, b, l)])
        add("mask [B,L], filter", [q, k, v, None, padding(r, b, l)],
            attrs={"mask_filter_value": -3.0})
        add("mask [B,S,T]", [q, k, v, bias, padding(r, b, s, l)])
        for i, j in ((1, 1), (b, 1), (1, n), (b, n)):
            add("attention_bias [%d,%d,S,T]" % (i, j), [q, k, v, bias, None, real(r, i, j, s, l)])
        add("mask and attention_bias", [q, k, v, None, padding(r, b, l), real(r, 1, n, s, l)])
        k4 = real(r, b, n, l, size)
        v4 = real(r, b, n, l, v_size)
        add("keys of rank 4", [q, k4, v4])
        add("keys of rank 4, bias", [q, k4, v4, bias])
        # Self-attention.
        k, v = real(r, b, s, d), real(r, b, s, d)
        bias = real(r, 3 * d)
        add("causal", [q, k, v, bias], attrs={"unidirectional": 1})
        add("causal, mask", [q, k, v, bias, padding(r, b, s)], attrs={"unidirectional": 1})
        add("causal, mask [B,S,T]", [q, k, v, bias, padding(r, b, s, s)],
            attrs={"unidirectional": 1})
        past = 3
        pk, pv = real(r, b, n, past, size), real(r, b, n, past, size)
        t = past + s
        add("past", [q, k, v, bias, None, None, pk, pv], outputs=3)
        add("past, causal", [q, k, v, bias, None, None, pk, pv], 3, {"unidirectional": 1})
        add("past, mask [B,T]", [q, k, v, bias, padding(r, b, t), None, pk, pv], 3)
        add("past, mask [B,T], attention_bias",
            [q, k, v, None, padding(r, b, t), real(r, 1, n, s, t), pk, pv], 3)
        add("past, attention_bias, causal", [q, k, v, None, None, real(r, b, n, s, t), pk, pv], 3,
            {"unidirectional": 1})
        add("qk", [q, k, v, bias], 4)
        add("qk, mask", [q, k, v, bias, padding(r, b, s)], 4)
        add("qk, attention_bias", [q, k, v, bias, None, real(r, 1, 1, s, s)], 4)
        add("qk, causal", [q, k, v, bias], 4, {"unidirectional": 1})
        add("packed queries, keys and values", [real(r, b, s, n, 3, size)])
        add("packed keys and values", [q, real(r, b, l, n, 2, size)])
    return out


def attention_cases():
    out = []

    def add(label, operands, outputs=1, attrs=None):
        operands = [("i%d" % i, o) if o is not None else None for i, o in enumerate(operands)]
        # Weights are packed when they are constants.
        if len(out) % 2:
            operands[1] = operands[1][1]
        out.append(Case("Attention", label, operands, [F32] * outputs,
                        dict(attrs or {}, num_heads=n)))

    n = 2
    for seed in range(3):
        r = np.random.default_rng(seed)
        n, b, s, width, size = ((2, 2, 3, 7, 4), (3, 1, 5, 24, 8), (4, 3, 1, 16, 4))[seed]
        d = n * size
        x, w, bias = real(r, b, s, width), real(r, width, 3 * d) / 4, real(r, 3 * d)
        add("plain", [x, w, bias])
        add("no bias", [x, w, None])
        add("scale", [x, w, bias], attrs={"scale": 0.4})
        add("present", [x, w, bias], 2)
        add("lengths", [x, w, bias, r.integers(1, s + 1, b).astype(np.int32)])
        ends = r.integers(max(1, s // 2), s + 1, b)
        starts = np.minimum(r.integers(0, s, b), ends - 1)
        add("ends and starts", [x, w, bias, np.concatenate([ends, starts]).astype(np.int32)])
        add("mask [B,T]", [x, w, bias, padding(r, b, s)])
        add("mask [B,T], filter", [x, w, bias, padding(r, b, s)], attrs={"mask_filter_value": -2.0})
        add("mask [B,S,T]", [x, w, bias, padding(r, b, s, s)])
        add("mask [B,1]", [x, w, bias, np.zeros((b, 1), np.int32)])
        add("mask [1,1]", [x, w, bias, np.zeros((1, 1), np.int32)])
        add("mask of rank 4", [x, w, bias, padding(r, b, 1, s, s)])
        add("causal", [x, w, bias], attrs={"unidirectional": 1})
        add("causal, mask [B,T]", [x, w, bias, padding(r, b, s)], attrs={"unidirectional": 1})
        add("attention_bias", [x, w, bias, None, None, real(r, b, n, s, s)])
        add("attention_bias [1,1,S,T], mask",
            [x, w, bias, padding(r, b, s), None, real(r, 1, 1, s, s)])
        past = real(r, 2, b, n, 3, size)
        add("past", [x, w, bias, None, past], 2)
        add("past, causal", [x, w, bias, None, past], 2, {"unidirectional": 1})
        add("past, causal, mask [B,T]", [x, w, bias, padding(r, b, s + 3), past], 2,
            {"unidirectional": 1})
        # A left-padded prompt: early queries see nothing but what the filter leaves.
        if s > 1:
            left = np.ones((b, s), np.int32)
            left[:, 0] = 0
            add("causal, left padding, filter", [x, w, bias, left],
                attrs={"unidirectional": 1, "mask_filter_value": -5.0})
        e = n * 3
        w2, bias2 = real(r, width, 2 * d + e) / 4, real(r, 2 * d + e)
        add("qkv_hidden_sizes", [x, w2, bias2], attrs={"qkv_hidden_sizes": [d, d, e]})
    return out


def caches(r, length, half):
    angles = np.outer(np.arange(length), 0.5 ** np.arange(half) + r.random(half) / 9)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def group_query_cases():
    out = []

    def add(label, r, shape, attrs=None, lengths=None, past=None, rotary=None, packed=False,
            positions=False, bias=None, sink=False, outputs=3, t=np.float32, half=None,
            total_constant=True):
        """`past` is the length of the past buffers; lengths are per sample, the new tokens counted."""
        b, s, n, g, h = shape
        lengths = [s] * b if lengths is None else lengths
        total = max(lengths)
        # The whole prompt is told from a step by its total length.
        q, k, v = real(r, b, s, n * h), real(r, b, s, g * h), real(r, b, s, g * h)
        pk = pv = None
        if past is not None:
            pk, pv = real(r, b, g, past, h).astype(t), real(r, b, g, past, h).astype(t)
        attrs = dict(attrs or {}, num_heads=n, kv_num_heads=g)
        cos = sin = None
        if rotary is not None:
            cos, sin = (c.astype(t) for c in caches(r, total + 5, half or h // 2))
            attrs.update(do_rotary=1, rotary_interleaved=rotary)
        operands = ([("q", np.concatenate([q, k, v], 2).astype(t)), None, None] if packed else
                    [("q", q.astype(t)), ("k", k.astype(t)), ("v", v.astype(t))])
        operands += [None if pk is None else ("pk", pk), None if pv is None else ("pv", pv),
                     ("lengths", np.array(lengths, np.int32) - 1)]
        whole = np.array(total, np.int32)
        operands += [whole if total_constant else ("total", whole), cos, sin]
        first = s == total
        ids = None
        if positions:
            ids = np.array([[(0 if first else x - s) + 2 + i for i in range(s)] for x in lengths])
            ids = ("positions", ids.astype(np.int64))
        operands += [ids, None if bias is None else ("bias", real(r, *bias, s, total).astype(t)),
                     real(r, n).astype(t) if sink else None]
        element = F16 if t == np.float16 else F32

        def mask(name, value):
            """Outputs of padded queries are whatever they are."""
            if not first or name in ("y1", "y2"):
                return value
            value = np.array(value)
            for i, x in enumerate(lengths):
                value[(i, slice(x, None)) if name == "y0" else
                      (i, slice(None), slice(x, None))] = 0
            return value

        out.append(Case("GroupQueryAttention", label, operands, [element] * outputs, attrs,
                        mask=mask))

    for seed, (n, g) in enumerate(((4, 2), (3, 3), (6, 1))):
        r = np.random.default_rng(seed)
        h = 16
        add("prompt", r, (1, 5, n, g, h))
        add("prompt of two", r, (2, 4, n, g, h))
        add("prompts of other lengths", r, (3, 4, n, g, h), lengths=[4, 2, 3])
        add("prompt, packed", r, (2, 4, n, g, h), packed=True)
        add("prompt, scale", r, (1, 4, n, g, h), {"scale": 0.2})
        add("prompt into a longer buffer", r, (1, 4, n, g, h), past=9)
        for rotary in (0, 1):
            add("prompt, rotary %d" % rotary, r, (2, 4, n, g, h), rotary=rotary)
            add("prompt, rotary %d, packed" % rotary, r, (2, 4, n, g, h), rotary=rotary, packed=True)
            add("step, rotary %d" % rotary, r, (2, 1, n, g, h), lengths=[6, 4], past=5,
                rotary=rotary)
        add("prompt, rotary of a part", r, (1, 4, n, g, 32), rotary=0, half=8)
        add("prompt, positions", r, (1, 4, n, g, h), rotary=0, positions=True)
        add("step, positions", r, (2, 1, n, g, h), lengths=[6, 4], past=5, rotary=0, positions=True)
        add("step", r, (2, 1, n, g, h), lengths=[6, 6], past=5)
        add("step, lengths differ", r, (3, 1, n, g, h), lengths=[6, 3, 1], past=5)
        add("step in a longer buffer", r, (2, 1, n, g, h), lengths=[6, 4], past=12)
        add("step, packed, rotary", r, (2, 1, n, g, h), lengths=[6, 4], past=5, rotary=0,
            packed=True)
        add("several tokens after a past", r, (1, 3, n, g, h), lengths=[8], past=5, rotary=0)
        add("total at run time", r, (2, 1, n, g, h), lengths=[6, 4], past=5, total_constant=False)
        add("window", r, (1, 7, n, g, h), {"local_window_size": 3})
        add("window, step", r, (2, 1, n, g, h), {"local_window_size": 3}, lengths=[8, 3], past=7)
        add("softcap", r, (1, 5, n, g, h), {"softcap": 0.8})
        add("softcap, window", r, (1, 6, n, g, h), {"softcap": 0.8, "local_window_size": 2})
        add("smooth softmax", r, (1, 5, n, g, h), {"smooth_softmax": 1})
        add("head sink", r, (2, 5, n, g, h), sink=True)
        add("head sink, window, step", r, (2, 1, n, g, h), {"local_window_size": 2}, lengths=[6, 4],
            past=5, sink=True)
        add("attention_bias", r, (2, 4, n, g, h), bias=(2, n))
        add("attention_bias [1,1], softcap", r, (2, 4, n, g, h), {"softcap": 0.8}, bias=(1, 1))
        add("attention_bias, step", r, (2, 1, n, g, h), lengths=[6, 6], past=5, bias=(1, n))
        add("not causal", r, (2, 4, n, g, h), {"causal": 0})
        add("not causal, step", r, (2, 1, n, g, h), {"causal": 0}, lengths=[6, 4], past=5)
        add("qk of a prompt", r, (2, 3, n, g, h), {"qk_output": 1}, outputs=4)
        add("qk of a prompt, window", r, (1, 5, n, g, h), {"qk_output": 1, "local_window_size": 2},
            outputs=4)
        add("probabilities of a prompt", r, (2, 3, n, g, h), {"qk_output": 2}, outputs=4)
        add("qk of a step, lengths differ", r, (2, 1, n, g, h), {"qk_output": 1}, lengths=[6, 4],
            past=5, outputs=4)
        add("qk with softcap and bias", r, (2, 1, n, g, h), {"qk_output": 1, "softcap": 0.8},
            lengths=[6, 6], past=5, bias=(1, 1), outputs=4)
        add("not causal, lengths differ", r, (2, 4, n, g, h), {"causal": 0}, lengths=[4, 2])
        add("qk before softmax", r, (2, 1, n, g, h), {"qk_output": 1}, lengths=[6, 6], past=5,
            outputs=4)
        add("qk after softmax", r, (2, 1, n, g, h), {"qk_output": 2}, lengths=[6, 6], past=5,
            outputs=4)
        add("f16", r, (2, 1, n, g, h), lengths=[6, 4], past=5, rotary=0, t=np.float16)
    return out


def rotary_cases():
    out = []
    for seed in range(12):
        r = np.random.default_rng(seed)
        b, s, n, h = ((2, 3, 2, 8), (1, 5, 3, 16), (2, 1, 4, 32))[seed % 3]
        interleaved = seed % 2
        t = np.float16 if seed == 9 else np.float32
        attrs = {"interleaved": interleaved}
        half = h // 2
        if seed // 3 == 1:
            attrs.update(num_heads=n, rotary_embedding_dim=half)
            half //= 2
        elif seed // 3 == 2:
            attrs["num_heads"] = n
        cos, sin = (c.astype(t) for c in caches(r, 12, half))
        x = real(r, b, n, s, h) if seed % 4 == 3 else real(r, b, s, n * h)
        positions = (np.array([4], np.int64) if seed % 4 == 1 else
                     r.integers(0, 12, (b, s)).astype(np.int64))
        out.append(Case("RotaryEmbedding", "%s %s rank %d, positions %s" % (
            np.dtype(t), attrs, x.ndim, positions.shape),
            [("x", x.astype(t)), ("p", positions), cos, sin],
            [F16 if t == np.float16 else F32], attrs))
    return out


def cases():
    return attention_cases() + multi_head_cases() + group_query_cases() + rotary_cases()
