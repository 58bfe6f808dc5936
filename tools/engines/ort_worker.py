"""ONNX Runtime on the CPU, all its own rewrites on, with inputs and outputs bound."""

import ctypes

from ort_values import BOUND, array_of, travels, value_of
from peers_protocol import NAMES, ONNX_NUMBERS, Engine, read_bytes, serve


class OnnxRuntime(Engine):
    name = "onnxruntime"

    def hello(self):
        global ort
        import numpy
        import onnxruntime as ort
        return {"onnxruntime": ort.__version__, "numpy": numpy.__version__}

    def load(self, request):
        options = ort.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        for symbol, extent in request["symbols"].items():
            options.add_free_dimension_override_by_name(symbol, extent)
        settings = {}
        if request.get("compare"):
            # Products of weights of 4 bits in f32, which its own rewrites would run on codes of 8 bits.
            options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
            settings["session.qdq_matmulnbits_accuracy_level"] = "1"
        self.session = ort.InferenceSession(request["model"], options,
                                            providers=["CPUExecutionProvider"])
        self.names = request["outputs"]
        self.types = {v.name: v.type for v in self.session.get_outputs()}
        self.by_value = request.get("compare", False) and self.holds_more_than_numbers(request)
        settings.update(self.settings_of(options, request))
        if self.by_value:
            self.feed(request["inputs"])
            return "session.run", settings
        self.binding = self.session.io_binding()
        self.inputs = [self.bind_input(tensor) for tensor in request["inputs"]]
        for name in self.names:
            self.binding.bind_output(name)
        return "session.run_with_iobinding, inputs and outputs bound", settings

    def settings_of(self, options, request):
        return {"intra_op_num_threads": options.intra_op_num_threads,
                "inter_op_num_threads": options.inter_op_num_threads,
                "execution_mode": options.execution_mode.name,
                "graph_optimization_level": options.graph_optimization_level.name,
                "enable_cpu_mem_arena": options.enable_cpu_mem_arena,
                "allow_spinning": "default",
                "free_dimension_overrides": request["symbols"],
                "providers": self.session.get_providers()}

    def holds_more_than_numbers(self, request):
        """Whether values cannot be bound: text, sequences, maps, types that the binding lacks."""
        return (any(t["dtype"] not in ONNX_NUMBERS for t in request["inputs"]) or
                any(self.types[name] not in BOUND for name in self.names))

    def feed(self, inputs):
        self.feeds = {tensor["name"]: array_of(tensor) for tensor in inputs}

    def bind_input(self, tensor):
        if tensor["dtype"] not in ONNX_NUMBERS:
            raise ValueError("input %s: element type %s" % (tensor["name"], tensor["dtype"]))
        value = ort.OrtValue.ortvalue_from_shape_and_type(
            tensor["dims"], ONNX_NUMBERS[tensor["dtype"]], "cpu")
        data = read_bytes(tensor)
        if data:
            ctypes.memmove(value.data_ptr(), data, len(data))
        self.binding.bind_ortvalue_input(tensor["name"], value)
        return value

    def step(self):
        if self.by_value:
            asked = [name for name in self.names if travels(self.types[name])]
            # Of no name it would give all.
            results = self.session.run(asked, self.feeds) if asked else []
            self.results = dict(zip(asked, results))
        else:
            self.session.run_with_iobinding(self.binding)

    def bind(self):
        """The buffers of the first run serve all others: the inputs, so the extents, stay."""
        if self.by_value:
            return
        values = self.binding.get_outputs()
        if not all(v.is_tensor() and v.element_type() in NAMES for v in values):
            return  # a sequence or text: made anew by every run
        self.binding.clear_binding_outputs()
        for name, value in zip(self.names, values):
            self.binding.bind_ortvalue_output(name, value)
        self.kept = values

    def rebind(self, inputs):
        if self.by_value:
            self.feed(inputs)
            return
        self.binding.clear_binding_inputs()
        self.binding.clear_binding_outputs()
        self.inputs = [self.bind_input(tensor) for tensor in inputs]
        for name in self.names:
            self.binding.bind_output(name)

    def described(self, name):
        if name in self.results:
            return value_of(self.results[name], self.types[name])
        return {"left_out": "ONNX Runtime does not hand out values of type %s" % self.types[name]}

    def outputs(self):
        if self.by_value:
            return [(name, self.described(name)) for name in self.names]
        listed = []
        for name, value in zip(self.names, self.binding.get_outputs()):
            if not value.is_tensor() or value.element_type() not in NAMES:
                raise ValueError("output %s is no tensor of numbers" % name)
            size = value.tensor_size_in_bytes()
            data = ctypes.string_at(value.data_ptr(), size) if size else b""
            listed.append((name, NAMES[value.element_type()], value.shape(), data))
        return listed


if __name__ == "__main__":
    serve(OnnxRuntime())
