"""Small models of ONNX Runtime's fused activations, products and normalisations, with fixed seeds;
see contrib_operators.py."""

from contrib_cases import F32, F64, I32, U32, Case, bytes_of, np, scale


def real(r, *shape):
    return r.normal(size=shape).astype(np.float32)


def activation_cases():
    out = []
    for seed in range(2):
        r = np.random.default_rng(seed)
        x, b = ("x", 3 * real(r, 3, 4, 17)), real(r, 17)
        out.append(Case("Gelu", "", [x], [F32]))
        out.append(Case("QuickGelu", "", [x], [F32]))
        out.append(Case("QuickGelu", "alpha", [x], [F32], {"alpha": 0.7}))
        out.append(Case("BiasGelu", "", [x, b], [F32]))
        out.append(Case("FastGelu", "", [x], [F32]))
        out.append(Case("FastGelu", "bias", [x, b], [F32]))
    return out


def distance_and_hash_cases():
    out = []
    r = np.random.default_rng(3)
    for metric in ("euclidean", "sqeuclidean"):
        for kind, type_ in ((np.float32, F32), (np.float64, F64)):
            out.append(Case("CDist", "%s of %s" % (metric, kind.__name__),
                            [("a", r.normal(size=(5, 7)).astype(kind)), ("b", r.normal(size=(9, 7)).astype(kind))],
                            [type_], {"metric": metric}))
    words = np.array(["", "a", "ab", "abc", "abcd", "na\u00efve", "a longer text than four bytes"], object)
    numbers = np.array([0, 1, 2, 3, 2**31 - 1, 77777])
    for values in (words, numbers.astype(np.int32), numbers.astype(np.uint32), numbers.astype(np.int64),
                   numbers.astype(np.uint64), (numbers / 3).astype(np.float32), numbers / 3):
        for attrs, type_ in (({}, U32), ({"positive": 0, "seed": 5}, I32)):
            out.append(Case("MurmurHash3", "%s %s" % (values.dtype, attrs), [("x", values)], [type_], attrs))
    return out


def product_cases():
    out = []
    r = np.random.default_rng(1)
    for activation in ("", "Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid", "Clip"):
        attrs = {"activation": activation} if activation else {}
        parameters = {"LeakyRelu": [0.1], "HardSigmoid": [0.2, 0.5], "Clip": [-0.5, 0.5]}
        conv = dict(attrs)
        if activation in parameters:
            conv["activation_params"] = parameters[activation]
        x, w, b = ("x", real(r, 2, 4, 9, 8)), real(r, 6, 2, 3, 3), real(r, 6)
        form = {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]}
        out.append(Case("FusedConv", activation, [x, w, b], [F32], dict(conv, **form)))
        if activation != "Clip":
            out.append(Case("FusedConv", activation + " and a sum",
                            [x, w, b, ("z", real(r, 2, 6, 5, 7))], [F32], dict(conv, **form)))
        gemm = dict(attrs)
        for name, value in zip(("activation_alpha", "activation_beta"),
                               parameters.get(activation, [])):
            gemm[name] = value
        if activation != "Clip":
            out.append(Case("FusedGemm", activation, [("a", real(r, 5, 7)), real(r, 3, 7), real(r, 3)],
                            [F32], dict(gemm, transB=1, alpha=0.5, beta=2.0)))
    for seed in range(4):
        r = np.random.default_rng(seed)
        trans_a, trans_b = seed % 2, seed // 2
        a = real(r, 2, *((6, 4) if trans_a else (4, 6)))
        b = real(r, 2, *((5, 6) if trans_b else (6, 5)))
        out.append(Case("FusedMatMul", "transA=%d transB=%d" % (trans_a, trans_b),
                        [("a", a), ("b", b)], [F32],
                        {"transA": trans_a, "transB": trans_b, "alpha": 0.7}))
    out.append(Case("FusedMatMul", "transBatch",
                    [("a", real(r, 4, 2, 6)), ("b", real(r, 6, 2, 5))], [F32],
                    {"transBatchA": 1, "transBatchB": 1}))
    return out


def few_bits_cases():
    out = []
    for seed in range(12):
        r = np.random.default_rng(seed)
        bits, block = (4, 8)[seed % 2], (16, 32, 64)[seed % 3]
        n, k = 5 + seed, 64 + 32 * (seed % 3)
        blocks = -(-k // block)
        codes = bytes_of(r, np.uint8, (n, blocks, block * bits // 8))
        zero = bytes_of(r, np.uint8, (n * -(-blocks * bits // 8),)) if seed % 4 < 2 else None
        bias = real(r, n) if seed % 5 == 1 else None
        out.append(Case("MatMulNBits", "%d bits, block %d%s%s" % (
            bits, block, "" if zero is None else ", zero points", "" if bias is None else ", bias"),
            [("x", real(r, 3, k)), codes, scale(r, (n * blocks,)), zero, None, bias], [F32],
            {"N": n, "K": k, "bits": bits, "block_size": block}))
    return out


def normalization_cases():
    out = []
    for seed in range(3):
        r = np.random.default_rng(seed)
        width = (8, 33, 64)[seed]
        x, skip = ("x", real(r, 2, 5, width)), ("skip", real(r, 2, 5, width))
        gamma, beta, bias = real(r, width), real(r, width), real(r, width)
        attrs = {"epsilon": 1e-3} if seed else {}
        op = "SkipLayerNormalization"
        out.append(Case(op, "", [x, skip, gamma, beta], [F32], attrs))
        out.append(Case(op, "no beta", [x, skip, gamma], [F32], attrs))
        out.append(Case(op, "bias and sum", [x, skip, gamma, beta, bias], [F32, None, None, F32],
                        attrs))
        op = "SkipSimplifiedLayerNormalization"
        out.append(Case(op, "", [x, skip, gamma], [F32], attrs))
        out.append(Case(op, "bias and sum", [x, skip, gamma, bias], [F32, None, None, F32], attrs))
        # ONNX Runtime writes this one in the domain of ONNX.
        out.append(Case("SimplifiedLayerNormalization", "", [x, gamma], [F32],
                        dict(attrs, axis=-1), domain=""))
        out.append(Case("LayerNormalization", "", [x, gamma, beta], [F32], attrs, domain=""))
    for seed in range(6):
        r = np.random.default_rng(seed)
        b, s, width = 2, 4, 16
        ids = ("ids", r.integers(0, 11, (b, s)).astype(np.int32))
        segments = ("segments", r.integers(0, 2, (b, s)).astype(np.int32)) if seed % 2 else None
        mask = (r.random((b, s)) < 0.6).astype(np.int32)
        mask = ("mask", -np.sort(-mask, 1)) if seed % 3 else None  # padding is at the right
        positions = None
        if seed >= 3:
            positions = ("positions", r.integers(0, 9, (b if seed % 2 else 1, s)).astype(np.int32))
        operands = [ids, segments, real(r, 11, width), real(r, 9, width),
                    real(r, 2, width) if segments else None, real(r, width), real(r, width), mask,
                    positions]
        out.append(Case("EmbedLayerNormalization", "segments %s, mask %s, positions %s" % tuple(
            o is not None for o in (segments, mask, positions)), operands,
            [F32, I32, F32 if seed % 2 else None], {"epsilon": 1e-5} if seed else {}))
    return out


def cases():
    return activation_cases() + distance_and_hash_cases() + product_cases() + few_bits_cases() + normalization_cases()
