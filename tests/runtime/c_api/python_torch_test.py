#!/usr/bin/python3
"""infer_opt and torch in one process: imported in either order, their oneDNN and OpenMP at work in turn, and after a fork; with the
build's library, which shares the system's oneDNN with Debian's torch, and by the wheel, which has its own."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["INFER_SOURCE"]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wheels import built, clean, installed  # noqa: E402

PROGRAM = """
import faulthandler, os, sys
faulthandler.dump_traceback_later(100, exit=True)
if %(torch_first)r:
    import torch, infer_opt
else:
    import infer_opt, torch
torch.set_num_threads(2)
torch.manual_seed(1)
conv, x = torch.nn.Conv2d(32, 32, 3, padding=1), torch.randn(2, 32, 32, 32)
image = torch.rand(1, 1, 32, 32)

def theirs():
    with torch.no_grad():
        return conv(x)

def ours(session):
    return torch.as_tensor(session.run(image)[0])

session = infer_opt.Session(%(digits)r, threads=2)
want, scores = theirs(), ours(session)
by_hand = torch.nn.functional.unfold(x, 3, padding=1).transpose(1, 2) @ conv.weight.reshape(32, -1).t() + conv.bias
assert torch.allclose(want.flatten(2).transpose(1, 2), by_hand, atol=1e-4)
reference = torch.as_tensor(infer_opt.Session(%(digits)r, device="reference").run(image)[0])
assert torch.allclose(scores, reference, atol=1e-3)
for _ in range(20):
    assert torch.allclose(ours(session), scores, atol=1e-4) and torch.allclose(theirs(), want, atol=1e-5)
faulthandler.cancel_dump_traceback_later()  # its thread is not in the child
child = os.fork()
if child == 0:  # where torch alone, with more than one thread, waits for ever for those of its parent
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        session.run(image)
        os._exit(3)
    except infer_opt.Error:
        pass
    mine = infer_opt.Session(%(digits)r, threads=2)
    os._exit(0 if all(torch.equal(ours(mine), ours(mine)) for _ in range(20)) else 4)
faulthandler.dump_traceback_later(100, exit=True)
assert os.waitpid(child, 0)[1] == 0, "the child"
assert torch.allclose(ours(session), scores, atol=1e-4) and torch.allclose(theirs(), want, atol=1e-5)
print("well", infer_opt.__file__)
"""


class BesideTorch(unittest.TestCase):
    def run_both(self, python, env, where):
        for torch_first in (True, False):
            with self.subTest(torch_first=torch_first):
                program = PROGRAM % {"torch_first": torch_first, "digits": os.path.join(SOURCE, "datasets/demo/digits.onnx")}
                ran = subprocess.run([python, "-c", program], env=env, capture_output=True, text=True, timeout=240)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertIn("well " + where, ran.stdout)

    def test_the_build(self):
        module = os.path.join(SOURCE, "tools/packaging/python")
        self.run_both(sys.executable, dict(os.environ, PYTHONPATH=module), module)

    def test_the_wheel(self):
        with tempfile.TemporaryDirectory() as work:
            python = installed(built(work), os.path.join(work, "venv"), "--system-site-packages")
            self.run_both(python, clean(), work)


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(f"left out: {sys.executable} has no torch")
        sys.exit(0)
    unittest.main()
