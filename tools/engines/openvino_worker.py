"""OpenVINO on the CPU in f32 or bf16, as infer computes, for latency: one stream, inputs bound, outputs shared."""

from peers_protocol import NUMPY_NAMES, Engine, read_bytes, serve

READ_BACK = ["INFERENCE_PRECISION_HINT", "PERFORMANCE_HINT", "NUM_STREAMS", "INFERENCE_NUM_THREADS",
             "ENABLE_CPU_PINNING", "ENABLE_HYPER_THREADING", "EXECUTION_MODE_HINT"]
OUR_NAMES = {"boolean": "bool"}


class OpenVino(Engine):
    name = "openvino"

    def hello(self):
        global np, ov
        import numpy as np
        import openvino as ov
        return {"openvino": ov.__version__, "numpy": np.__version__}

    def load(self, request):
        core = ov.Core()
        model = core.read_model(request["model"])
        dims = {t["name"]: t["dims"] for t in request["inputs"]}
        open_inputs = {name: ov.PartialShape(d) for name, d in dims.items()
                       if model.input(name).partial_shape != ov.PartialShape(d)}
        if open_inputs:
            model.reshape(open_inputs)
        self.compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": request.get("infer", {}).get("compute", "f32"),
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": request["threads"],
        })
        self.request = self.compiled.create_infer_request()
        for tensor in request["inputs"]:
            self.request.set_tensor(tensor["name"], self.tensor_of(tensor))
        self.names = request["outputs"]
        settings = {key: str(self.compiled.get_property(key)) for key in READ_BACK}
        settings["reshaped_inputs"] = sorted(open_inputs)
        return "infer_request.infer(share_outputs=True), inputs bound", settings

    @staticmethod
    def tensor_of(tensor):
        if tensor["dtype"] not in NUMPY_NAMES:
            raise ValueError("input %s: element type %s" % (tensor["name"], tensor["dtype"]))
        dtype = np.dtype(NUMPY_NAMES[tensor["dtype"]])
        value = ov.Tensor(ov.Type(dtype), ov.Shape(tensor["dims"]))
        value.data[...] = np.frombuffer(read_bytes(tensor), dtype).reshape(tensor["dims"])
        return value

    def step(self):
        self.request.infer(share_outputs=True)

    def outputs(self):
        listed = []
        for i, name in enumerate(self.names):
            try:
                port = self.compiled.output(name)
            except RuntimeError:  # a name that OpenVINO merged with another
                port = self.compiled.outputs[i]
            value = self.request.get_tensor(port)
            dtype = value.element_type.get_type_name()
            listed.append((name, OUR_NAMES.get(dtype, dtype), list(value.shape),
                           np.ascontiguousarray(value.data).tobytes()))
        return listed


if __name__ == "__main__":
    serve(OpenVino())
