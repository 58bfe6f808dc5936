#!/usr/bin/env python3
"""Compares `infer-bench zoo` with torch.onnx.export of the models that it claims to be.

    zoo_equals_torch.py --write FILE                 what torch exports, for tests/tools/zoo
    zoo_equals_torch.py --check FILE                 the same, compared with FILE
    zoo_equals_torch.py --bench build/release/bin/infer-bench [NAME...]
                                                     our files against torch's: operators, weight
                                                     extents, opset, interface

Needs torch 1.13, torchvision 0.14 (Debian: python3-torchvision), transformers 4.30.2, timm 0.6.13 and
onnx. Says so and exits with 77 where one is missing. Constants are not counted: torch writes some as
Constant nodes, we write initializers.
"""
import argparse
import collections
import io
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import onnx
    import timm
    import torch
    import torchvision
    import transformers
    from torch import nn
except ImportError as error:
    print(f"SKIP: {error}", file=sys.stderr)
    sys.exit(77)

IMAGE = (torch.zeros(1, 3, 224, 224),)
IDS = torch.zeros(1, 128, dtype=torch.long)
LAYERS = 12


class ConvSilu(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001, momentum=0.03)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Stage(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.down = ConvSilu(inputs, width, 3, 2)
        self.body = nn.Sequential(ConvSilu(width, width // 2, 1), ConvSilu(width // 2, width, 3))

    def forward(self, x):
        x = self.down(x)
        return x + self.body(x)


class Yolo(nn.Module):
    """The detector of tools/zoo/yolo.cc."""

    ANCHORS = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(Stage(3, 16), Stage(16, 32))
        self.s3, self.s4, self.s5 = Stage(32, 64), Stage(64, 128), Stage(128, 256)
        self.squeeze, self.spread = ConvSilu(256, 128, 1), ConvSilu(512, 256, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.l5, self.n4 = ConvSilu(256, 128, 1), ConvSilu(256, 128, 3)
        self.l4, self.n3 = ConvSilu(128, 64, 1), ConvSilu(128, 64, 3)
        self.heads = nn.ModuleList(nn.Conv2d(c, 255, 1) for c in (64, 128, 256))

    def forward(self, x):
        p3 = self.s3(self.stem(x))
        p4 = self.s4(p3)
        pyramid = [self.squeeze(self.s5(p4))]
        for _ in range(3):
            pyramid.append(self.pool(pyramid[-1]))
        p5 = self.spread(torch.cat(pyramid, 1))
        n4 = self.n4(torch.cat([self.up(self.l5(p5)), p4], 1))
        n3 = self.n3(torch.cat([self.up(self.l4(n4)), p3], 1))
        return torch.cat([self.decode(i, f) for i, f in enumerate((n3, n4, p5))], 1)

    def decode(self, level, x):
        x = self.heads[level](x)
        b, _, h, w = (int(d) for d in x.shape)
        x = x.view(b, 3, 85, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        y, c = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((c, y), 2).expand(1, 3, h, w, 2).float() - 0.5
        boxes = torch.tensor(self.ANCHORS[level]).float().view(1, 3, 1, 1, 2).expand(1, 3, h, w, 2)
        xy, wh, rest = x.split((2, 2, 81), 4)
        xy = (xy * 2 + grid.clone()) * float(8 << level)
        wh = (wh * 2) ** 2 * boxes.clone()
        return torch.cat((xy, wh, rest), 4).view(b, 3 * h * w, 85)


def gpt2(use_cache):
    config = transformers.GPT2Config(n_layer=LAYERS, use_cache=use_cache)
    return transformers.GPT2LMHeadModel(config)


def past():
    return tuple((torch.zeros(1, 12, 128, 64), torch.zeros(1, 12, 128, 64)) for _ in range(LAYERS))


def bert():
    return transformers.BertModel(transformers.BertConfig(num_hidden_layers=LAYERS))


TV = torchvision.models
MODELS = {
    "resnet18": (TV.resnet18, IMAGE),
    "resnet50": (TV.resnet50, IMAGE),
    "mobilenetv2": (TV.mobilenet_v2, IMAGE),
    "mobilenetv3-small": (TV.mobilenet_v3_small, IMAGE),
    "efficientnet-lite0": (lambda: timm.create_model("efficientnet_lite0"), IMAGE),
    "vgg16": (TV.vgg16, IMAGE),
    "squeezenet1.1": (TV.squeezenet1_1, IMAGE),
    "yolo": (Yolo, (torch.zeros(1, 3, 416, 416),)),
    "bert-base": (bert, (IDS, torch.ones_like(IDS), torch.zeros_like(IDS))),
    "vit-b16": (TV.vit_b_16, IMAGE),
    "gpt2-small": (lambda: gpt2(False), (IDS,)),
    "gpt2-small-kv": (lambda: gpt2(True), (IDS[:, :1], past())),
}


def export(name):
    make, args = MODELS[name]
    model = make().eval()
    # Equal weights would be written once and handed on by Identity nodes: make them differ.
    for p in [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]:
        p.data = torch.rand(p.shape) * 0.01 + (0.5 if p.dim() == 1 else 0)
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, args, data, opset_version=14,
                          training=torch.onnx.TrainingMode.PRESERVE)
    return onnx.load_from_string(data.getvalue())


def histogram(model):
    count = collections.Counter(n.op_type for n in model.graph.node)
    count.pop("Constant", None)
    return " ".join(f"{op}={n}" for op, n in sorted(count.items()))


def weights(model):
    """Extents of everything with at least 256 elements, as a multiset."""
    shapes = [list(i.dims) for i in model.graph.initializer]
    shapes += [list(a.t.dims) for n in model.graph.node if n.op_type == "Constant"
               for a in n.attribute]
    def size(dims):
        total = 1
        for d in dims:
            total *= d
        return total
    return collections.Counter(tuple(s) for s in shapes if size(s) >= 256)


def interface(values):
    return [(v.type.tensor_type.elem_type,
             [d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values]


def compare(bench, name):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "zoo.onnx"
        subprocess.run([bench, "zoo", name, "-o", str(path)], check=True)
        ours = onnx.load(str(path))
    theirs = export(name)
    facts = {
        "operators": histogram,
        "opset": lambda m: [o.version for o in m.opset_import if o.domain == ""],
        "inputs": lambda m: interface(m.graph.input),
        "outputs": lambda m: sorted(interface(m.graph.output)),
        "weights": weights,
    }
    same = True
    for what, of in facts.items():
        if of(ours) != of(theirs):
            same = False
            print(f"{name}: {what} differ:\n  ours   {of(ours)}\n  torch's {of(theirs)}")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write")
    what.add_argument("--check")
    what.add_argument("--bench")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or list(MODELS)
    if options.bench:
        different = [n for n in names if not compare(options.bench, n)]
        print(f"{len(names) - len(different)} of {len(names)} equal")
        sys.exit(1 if different else 0)
    lines = [f"{n}: {histogram(export(n))}\n" for n in names]
    if options.write:
        pathlib.Path(options.write).write_text("".join(lines))
    else:
        stored = pathlib.Path(options.check).read_text().splitlines(keepends=True)
        missing = [line for line in lines if line not in stored]
        print("".join(missing), end="")
        sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
