"""The demo model and its calibration data, without NumPy."""
import array
import ast
import csv
import os
import tempfile
import unittest

DEMO = os.path.join(os.environ["INFER_SOURCE"], "datasets/demo")
DIGITS = os.path.join(DEMO, "digits.onnx")
DIMS = [1, 1, 32, 32]


def pixels(path):
    """The images of a file as lists of 1,024 numbers: 8 x 8 bytes, each four times along both axes, 0 to 1."""
    with open(path, "rb") as f:
        data = f.read()
    size = 10 + int.from_bytes(data[8:10], "little")
    images = data[size:]
    assert ast.literal_eval(data[10:size].decode())["shape"][1:] == (8, 8)
    for i in range(0, len(images), 64):
        image = images[i:i + 64]
        yield array.array("f", [image[8 * (y // 4) + x // 4] / 255 for y in range(32) for x in range(32)])


def shaped(numbers):
    return memoryview(numbers).cast("B").cast("f", DIMS)


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.numbers = list(pixels(os.path.join(DEMO, "calib_images.npy")))
        cls.images = [shaped(n) for n in cls.numbers]
        with open(os.path.join(DEMO, "calib_labels.csv")) as f:
            cls.labels = [int(row["label"]) for row in csv.DictReader(f)]

    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)

    def path(self, name):
        return os.path.join(self.work.name, name)

    def bytes_of(self, model):
        model.save(self.path("saved.onnx"))
        with open(self.path("saved.onnx"), "rb") as f:
            return f.read()
