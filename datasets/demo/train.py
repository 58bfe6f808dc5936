#!/usr/bin/python3
"""Trains the demo model and writes digits.onnx (Debian: python3-torch, python3-onnx).

A residual CNN for 1 x 32 x 32 digits with what optimisers meet in practice: BatchNormalization
after every convolution, basic and inverted residual blocks, depthwise convolutions, ReLU and ReLU6,
global average pooling. Exported as a user's exporter writes it: BatchNormalization not folded.
Seeded and on one thread: the same versions of the packages give the same file. About 2 minutes.
"""
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).resolve().parent
EPOCHS = 12
BATCH = 32


def conv_bn(inputs, outputs, kernel, stride=1, groups=1, act=None):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Basic(nn.Module):
    """relu(x + bn(conv(relu(bn(conv(x))))))"""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(conv_bn(width, width, 3, act=nn.ReLU), conv_bn(width, width, 3))

    def forward(self, x):
        return F.relu(x + self.body(x))


class Inverted(nn.Module):
    """x + project(depthwise(expand(x)))"""

    def __init__(self, width, expand):
        super().__init__()
        inner = width * expand
        self.body = nn.Sequential(conv_bn(width, inner, 1, act=nn.ReLU6),
                                  conv_bn(inner, inner, 3, groups=inner, act=nn.ReLU6),
                                  conv_bn(inner, width, 1))

    def forward(self, x):
        return x + self.body(x)


def down(inputs, outputs):
    """Halves the resolution: depthwise, then pointwise."""
    return nn.Sequential(conv_bn(inputs, inputs, 3, stride=2, groups=inputs, act=nn.ReLU6),
                         conv_bn(inputs, outputs, 1, act=nn.ReLU6))


def make_model():
    return nn.Sequential(
        conv_bn(1, 32, 3, act=nn.ReLU6), Basic(32), Basic(32),       # 32 x 32
        down(32, 64), Basic(64), Inverted(64, 3),                    # 16 x 16
        down(64, 96), Inverted(96, 3), conv_bn(96, 128, 1, act=nn.ReLU6),  # 8 x 8
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def load(part):
    """What `--preprocess resize=32,interp=nearest,scale=1/255,layout=nchw` gives."""
    images = np.load(FOLDER / f"{part}_images.npy")
    images = images.repeat(4, axis=1).repeat(4, axis=2)[:, None] * np.float32(1 / 255)
    labels = np.loadtxt(FOLDER / f"{part}_labels.csv", skiprows=1, dtype=np.int64)
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(labels)


def shifted(x, random):
    """Each image moved by up to 4 pixels each way and scaled in brightness."""
    padded = F.pad(x, (4, 4, 4, 4))
    out = torch.empty_like(x)
    for i, (dy, dx) in enumerate(random.randint(0, 9, (len(x), 2))):
        out[i] = padded[i, :, dy:dy + 32, dx:dx + 32] * random.uniform(0.8, 1.0)
    return out


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        hits = sum((model(a).argmax(1) == b).sum().item()
                   for a, b in zip(x.split(100), y.split(100)))
    return hits / len(y)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    random = np.random.RandomState(1)
    x, y = load("train")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    steps = (len(x) + BATCH - 1) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=EPOCHS * steps)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for rows in np.array_split(random.permutation(len(x)), steps):
            loss = F.cross_entropy(model(shifted(x[rows], random)), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / steps:.4f}", flush=True)
    for part in ("train", "calib", "eval"):
        print(f"{part}: {accuracy(model, *load(part)):.4f}")

    model.eval()
    torch.onnx.export(model, torch.zeros(1, 1, 32, 32), FOLDER / "digits.onnx", opset_version=13,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}})
    print(f"digits.onnx: {(FOLDER / 'digits.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
