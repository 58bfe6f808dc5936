#!/usr/bin/env python3
"""What our ways of rounding weights err, beside ONNX Runtime's own MatMulNBitsQuantizer.

usage: weight_only_error.py INFER_OPT [--bits N] [--block N] [MODEL...]

Trained transformers with stored inputs. All files run in ONNX Runtime with activations in f32; the
error of a file is the SQNR of its outputs against the FP32 model's, over all stored inputs. Only
products are quantized here, as ONNX Runtime's tool does (which needs onnx_ir and sympy). The table
of docs/quantization.md; it passes no verdict, because stored inputs are few."""
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx

MODELS = ["stories260k_a", "vit_ibp_cifar", "magika_v2_1", "protocol_transformer", "voicevox_spec"]
OURS = ["nearest", "mse", "hqq"]


def outputs(path, data):
    made = judging.session_of(path, True)
    return [made.run(None, judging.load_inputs(d, made)) for d in data]


def sqnr(golden, candidate):
    signal = noise = 0.0
    for a, b in zip(golden, candidate):
        for x, y in zip(a, b):
            if np.issubdtype(x.dtype, np.floating):
                x, y = x.astype(np.float64), y.astype(np.float64)
                signal += (x**2).sum()
                noise += ((x - y)**2).sum()
    return 10 * np.log10(signal / max(noise, 1e-300))


def theirs(path, out, bits, block, config=None):
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits
    quantizer = nbits.MatMulNBitsQuantizer(
        onnx.load(path), bits=bits, block_size=block, is_symmetric=True, accuracy_level=0,
        algo_config=config(nbits) if config else None)
    quantizer.process()
    quantizer.model.save_model_to_file(out, False)


def k_quant(nbits):
    return nbits.KQuantWeightOnlyQuantConfig()


def main():
    arguments = sys.argv[1:]
    bits, block = 4, 64
    for flag in ("--bits", "--block"):
        if flag in arguments:
            at = arguments.index(flag)
            value = int(arguments[at + 1])
            del arguments[at:at + 2]
            bits, block = (value, block) if flag == "--bits" else (bits, value)
    if not arguments:
        sys.exit(__doc__)
    folder = os.path.join(judging.data_folder(), "models")
    print(f"int{bits}, blocks of {block}, symmetric: SQNR of the outputs in dB")
    print(f"{'model':22}{''.join(f'{m:>10}' for m in OURS)}{'ORT RTN':>10}{'k_quant':>10}")
    sums = np.zeros(len(OURS) + 2)
    for model in arguments[1:] or MODELS:
        path = os.path.join(folder, model, "model.onnx")
        data = judging.data_sets(os.path.dirname(path))
        golden = outputs(path, data)
        row = []
        with tempfile.TemporaryDirectory() as work:
            out = os.path.join(work, "quantized.onnx")
            for method in OURS:
                subprocess.run(
                    [arguments[0], "quantize", path, "-o", out, "--opset", "max", "--mode", "weight-only", "--bits",
                     str(bits), "--block", str(block), "--method", method, "--embeddings", "off",
                     "--layers-int8", "off", "-q"], check=True, stdout=subprocess.DEVNULL)
                row.append(sqnr(golden, outputs(out, data)))
            for config in (None, k_quant):
                try:
                    theirs(path, out, bits, block, config)
                    row.append(sqnr(golden, outputs(out, data)))
                except Exception as error:  # a method that this version lacks
                    print("ONNX Runtime's tool:", str(error)[:200], file=sys.stderr)
                    row.append(float("nan"))
        sums += row
        print(f"{model:22}{''.join(f'{x:10.1f}' for x in row)}", flush=True)
    print(f"{'mean':22}{''.join(f'{x:10.1f}' for x in sums / len(arguments[1:] or MODELS))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
