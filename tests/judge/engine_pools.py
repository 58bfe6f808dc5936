"""A closed loop on another runtime, in a process of its own: so many requests in flight, so many workers of one thread each.

usage: engine_pools.py ort|openvino

Each line of stdin is a JSON request, its answer one line of JSON on stdout:

  {"op": "load", "model", "workers", "inputs"}   inputs: {NAME: file.npy}     -> {"settings"}
  {"op": "closed", "concurrency", "seconds"}     -> {"ms": [latencies], "seconds", "answered", "python": share}
  {"op": "bare", "count"}                        -> {"ms": [times of single runs of one thread]}

"python" is the share of the workers' time between two requests that was spent outside of the runtime's call, null where
the runtime's own threads do the work."""

import gc
import json
import os
import queue
import sys
import threading
import time

CLOCK = time.perf_counter_ns


class OnnxRuntimePool:
    """Threads of Python over one session: its call lets go of the interpreter."""

    def load(self, request):
        import numpy
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self.session = ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
        self.workers = request["workers"]
        feeds = {name: numpy.load(file) for name, file in request["inputs"].items()}
        self.bindings = [self.binding_of(ort, feeds) for _ in range(self.workers)]
        return {"settings": "onnxruntime %s, %d threads over one session of 1 thread, inputs and outputs bound"
                            % (ort.__version__, self.workers)}

    def binding_of(self, ort, feeds):
        """The buffers of the first run serve all others."""
        binding = self.session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
        names = [o.name for o in self.session.get_outputs()]
        for name in names:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        values = binding.get_outputs()
        binding.clear_binding_outputs()
        for name, value in zip(names, values):
            binding.bind_ortvalue_output(name, value)
        self.session.run_with_iobinding(binding)
        return binding

    def bare(self, count):
        run, binding, times = self.session.run_with_iobinding, self.bindings[0], []
        for _ in range(count):
            start = CLOCK()
            run(binding)
            times.append((CLOCK() - start) / 1e6)
        return {"ms": times}

    def closed(self, concurrency, seconds):
        """A request is the moment at which it was submitted; its answer submits the next."""
        waiting, results = queue.SimpleQueue(), [None] * self.workers
        start = CLOCK()
        end = start + int(seconds * 1e9)

        def work(i):
            run, binding = self.session.run_with_iobinding, self.bindings[i]
            latencies, inside, outside = [], 0, 0
            while True:
                submitted = waiting.get()
                if submitted is None:
                    break
                taken = CLOCK()
                run(binding)
                done = CLOCK()
                if done > end:
                    break
                latencies.append((done - submitted) / 1e6)
                inside += done - taken
                waiting.put(CLOCK())
                outside += CLOCK() - done
            results[i] = latencies, inside, outside
            waiting.put(None)  # for another worker

        threads = [threading.Thread(target=work, args=(i,)) for i in range(self.workers)]
        for t in threads:
            t.start()
        start = CLOCK()
        end = start + int(seconds * 1e9)
        for _ in range(concurrency):
            waiting.put(CLOCK())
        for t in threads:
            t.join()
        ms = [x for latencies, _, _ in results for x in latencies]
        inside, outside = (sum(r[k] for r in results) for k in (1, 2))
        return {"ms": ms, "seconds": seconds, "answered": len(ms), "python": outside / max(inside + outside, 1)}


class OpenVinoPool:
    """Its own queue of requests over its own threads."""

    def load(self, request):
        import numpy
        import openvino as ov
        core = ov.Core()
        model = core.read_model(request["model"])
        feeds = {name: numpy.load(file) for name, file in request["inputs"].items()}
        shapes = {name: ov.PartialShape(v.shape) for name, v in feeds.items()
                  if model.input(name).partial_shape != ov.PartialShape(v.shape)}
        if shapes:
            model.reshape(shapes)
        self.ov, self.feeds = ov, feeds
        both = {"INFERENCE_PRECISION_HINT": "f32"}
        self.compiled = core.compile_model(model, "CPU", {
            **both, "PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": request["workers"],
            "INFERENCE_NUM_THREADS": request["workers"]})
        single = core.compile_model(model, "CPU", {
            **both, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1})
        self.single = self.bound(single.create_infer_request())
        self.queues = {}
        return {"settings": "openvino %s, AsyncInferQueue, %s streams, %s threads, inputs bound"
                            % (ov.__version__, self.compiled.get_property("NUM_STREAMS"),
                               self.compiled.get_property("INFERENCE_NUM_THREADS"))}

    def bound(self, request):
        for name, value in self.feeds.items():
            request.set_tensor(name, self.ov.Tensor(value.copy()))
        request.infer(share_outputs=True)
        return request

    def bare(self, count):
        times = []
        for _ in range(count):
            start = CLOCK()
            self.single.infer(share_outputs=True)
            times.append((CLOCK() - start) / 1e6)
        return {"ms": times}

    def closed(self, concurrency, seconds):
        if concurrency not in self.queues:
            made = self.queues[concurrency] = self.ov.AsyncInferQueue(self.compiled, concurrency)
            for request in made:
                self.bound(request)
        requests, ended = self.queues[concurrency], []
        requests.set_callback(lambda request, submitted: ended.append((submitted, CLOCK())))
        start = CLOCK()
        end = start + int(seconds * 1e9)
        while CLOCK() < end:
            requests.get_idle_request_id()  # waits for a free place, which is no part of the latency
            requests.start_async(userdata=CLOCK())
        requests.wait_all()
        ms = [(done - submitted) / 1e6 for submitted, done in ended if done <= end]
        return {"ms": ms, "seconds": seconds, "answered": len(ms), "python": None}


def serve(pool):
    # Libraries print where they like: answers keep a descriptor of their own.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.disable()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "load":
                reply = pool.load(request)
            elif request["op"] == "bare":
                reply = pool.bare(request["count"])
            else:
                reply = pool.closed(request["concurrency"], request["seconds"])
        except Exception as e:  # told to the judge
            reply = {"error": "%s: %s" % (type(e).__name__, e)}
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    serve({"ort": OnnxRuntimePool, "openvino": OpenVinoPool}[sys.argv[1]]())
