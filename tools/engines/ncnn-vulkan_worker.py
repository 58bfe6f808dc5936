"""ncnn's Vulkan on the first device, in f32: the model by pnnx, 16-bit storage and arithmetic off, inputs and outputs on the host."""

import os
import subprocess
import sys
import tempfile

from peers_protocol import Engine, read_bytes, serve


class NcnnVulkan(Engine):
    name = "ncnn-vulkan"

    def hello(self):
        global np, ncnn
        import importlib.metadata

        import ncnn
        import numpy as np
        import pnnx
        self.pnnx = os.path.join(os.path.dirname(pnnx.__file__), "bin", "pnnx")
        if not os.path.exists(self.pnnx):
            self.pnnx = os.path.join(os.path.dirname(sys.executable), "pnnx")
        if ncnn.get_gpu_count() == 0:
            raise ImportError("ncnn finds no Vulkan device")
        return {p: importlib.metadata.version(p) for p in ("ncnn", "pnnx", "numpy")}

    def convert(self, request, folder):
        """By pnnx, for the extents that will run."""
        shapes = ",".join("[%s]f32" % ",".join(map(str, t["dims"])) for t in request["inputs"])
        link = os.path.join(folder, "model.onnx")
        os.symlink(os.path.abspath(request["model"]), link)
        done = subprocess.run([self.pnnx, "model.onnx", "inputshape=" + shapes, "fp16=0"], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        made = [os.path.join(folder, "model.ncnn." + end) for end in ("param", "bin")]
        if not all(os.path.exists(m) for m in made):
            raise ValueError("pnnx: " + (done.stdout.strip().splitlines() or ["no output"])[-1])
        return made

    def load(self, request):
        for t in request["inputs"]:
            if t["dtype"] != "f32" or not t["dims"] or t["dims"][0] != 1:
                raise ValueError("input %s: f32 of one sample is taken" % t["name"])
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = request["threads"]
        options.use_vulkan_compute = True
        off = ["use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_fp16_uniform", "use_bf16_storage",
               "use_bf16_packed", "use_int8_packed", "use_int8_storage", "use_int8_arithmetic", "use_int8_uniform"]
        for name in off:
            if hasattr(options, name):
                setattr(options, name, False)
        self.net.set_vulkan_device(0)
        with tempfile.TemporaryDirectory() as folder:
            param, weights = self.convert(request, folder)
            if self.net.load_param(param) != 0 or self.net.load_model(weights) != 0:
                raise ValueError("ncnn does not load what pnnx wrote")
        self.rebind(request["inputs"])
        self.names = request["outputs"]
        self.dims = request.get("output_dims")
        settings = {name: str(getattr(options, name)) for name in sorted(dir(options)) if name.startswith("use_")}
        settings["device"] = ncnn.get_gpu_info(0).device_name() if hasattr(ncnn, "get_gpu_info") else ""
        return "extractor: input, extract, on host memory", settings

    def rebind(self, inputs):
        # A Mat over an array does not keep it.
        self.arrays = [np.frombuffer(read_bytes(t), np.float32).reshape(t["dims"][1:]).copy() for t in inputs]
        self.inputs = [ncnn.Mat(a).clone() for a in self.arrays]

    def step(self):
        # Results lie in memory of the extractor.
        self.run = run = self.net.create_extractor()
        for i, mat in enumerate(self.inputs):
            run.input("in%d" % i, mat)
        self.results = []
        for i in range(len(self.names)):
            code, mat = run.extract("out%d" % i)
            if code != 0:
                raise ValueError("ncnn ends with %d" % code)
            self.results.append(mat)

    def outputs(self):
        listed = []
        for name, mat in zip(self.names, self.results):
            value = np.array(mat)[np.newaxis]
            listed.append((name, "f32", list(value.shape), np.ascontiguousarray(value, np.float32).tobytes()))
        return listed


if __name__ == "__main__":
    serve(NcnnVulkan())
