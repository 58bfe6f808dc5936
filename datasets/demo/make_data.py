#!/usr/bin/python3
"""Writes the demo's data set from the UCI digits that scikit-learn carries (Debian: python3-sklearn).

Per part (train, calib, eval): PART_images.npy, u8 [n, 8, 8], 0 (paper) to 255 (ink), and
PART_labels.csv, one digit per row. The parts are disjoint; every run writes the same bytes.
"""
import pathlib

import numpy as np
from sklearn.datasets import load_digits

PARTS = (("calib", 200), ("eval", 600), ("train", 997))


def main():
    digits = load_digits()
    # 0..16 pixels of a 4x4 block are ink -> 0..255.
    images = np.floor(digits.images * 255 / 16 + 0.5).astype(np.uint8)
    order = np.random.RandomState(1).permutation(len(images))
    folder = pathlib.Path(__file__).resolve().parent
    begin = 0
    for part, count in PARTS:
        chosen = np.sort(order[begin:begin + count])
        begin += count
        np.save(folder / f"{part}_images.npy", images[chosen])
        rows = "".join(f"{label}\n" for label in digits.target[chosen])
        (folder / f"{part}_labels.csv").write_text("label\n" + rows)
    assert begin == len(images)


if __name__ == "__main__":
    main()
