#!/usr/bin/env python3
"""Trains three classifiers of architectures that the models of INFER_TEST_DATA lack, for
recipes_table.py --more: a mobile net (depthwise, squeeze-and-excitation, HardSwish), a ConvNeXt
(7x7 depthwise, LayerNormalization, GELU) and a bidirectional GRU over the rows of an image.

usage: train_classifiers.py OUT [--epochs N]

Writes OUT/NAME.onnx, and into OUT/rows.npy and OUT/labels.npy the labelled digits that no training
saw. Needs torch (Debian: python3-torch), no GPU; about three minutes. Exits 77 without torch or data."""
import argparse
import os
import sys

import numpy as np

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: no torch")
    sys.exit(77)

TRAINED = 3000  # of 5,000 digits; the others judge


class Gate(nn.Module):
    """Squeeze-and-excitation."""

    def __init__(self, channels):
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        return x * nn.functional.hardsigmoid(self.wide(torch.relu(self.narrow(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    def __init__(self, width, to, stride, kernel):
        super().__init__()
        wide = 4 * width
        self.adds = stride == 1 and width == to
        self.body = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide),
            nn.Hardswish(), Gate(wide), nn.Conv2d(wide, to, 1, bias=False), nn.BatchNorm2d(to))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobile():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), Inverted(16, 24, 1, 3),
        Inverted(24, 24, 1, 3), Inverted(24, 40, 2, 5), Inverted(40, 40, 1, 5), nn.Conv2d(40, 128, 1), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Block(nn.Module):
    """ConvNeXt's block: depthwise, then the channels last."""

    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.mix = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.mix(self.depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext():
    return nn.Sequential(nn.Conv2d(1, 48, 2, 2), Block(48), Block(48), nn.Conv2d(48, 96, 2, 2), Block(96), Block(96),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 10))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.GRU(28, 96, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(192, 10)

    def forward(self, x):
        return self.head(self.rows(x.squeeze(1))[0].mean(1))


def train(net, images, labels, epochs):
    steps = epochs * (len(images) // 64)
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for at in range(0, len(images) // 64 * 64, 64):
            which = order[at:at + 64]
            shift = torch.randint(-2, 3, (2,)).tolist()
            loss = nn.functional.cross_entropy(net(torch.roll(images[which], shift, (2, 3))), labels[which])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("out")
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    data = os.environ.get("INFER_TEST_DATA")
    if not data:
        print("skipped: INFER_TEST_DATA is not set")
        return 77
    base = os.path.join(data, "labelled")
    rows = np.load(os.path.join(base, "mnist_dev_images_u8.npy")).astype(np.float32).reshape(-1, 1, 28, 28) / 255
    labels = np.load(os.path.join(base, "mnist_dev_labels.npy")).reshape(-1).astype(np.int64)
    os.makedirs(args.out, exist_ok=True)
    np.save(os.path.join(args.out, "rows.npy"), rows[TRAINED:])
    np.save(os.path.join(args.out, "labels.npy"), labels[TRAINED:])
    torch.set_num_threads(1)
    for name, make in (("mnist_mobile", mobile), ("mnist_convnext", convnext), ("mnist_gru", Rows)):
        torch.manual_seed(0)
        net = make()
        train(net, torch.from_numpy(rows[:TRAINED]), torch.from_numpy(labels[:TRAINED]), args.epochs)
        net.eval()
        with torch.no_grad():
            found = net(torch.from_numpy(rows[TRAINED:])).argmax(1).numpy()
        torch.onnx.export(net, torch.from_numpy(rows[:1]), os.path.join(args.out, name + ".onnx"), opset_version=17,
                          input_names=["image"], output_names=["scores"])
        print(f"{name}: {100 * (found == labels[TRAINED:]).mean():.1f} % of {len(found)} unseen digits", flush=True)


if __name__ == "__main__":
    main()
