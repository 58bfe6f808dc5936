#!/usr/bin/python3
"""eval_fn of infer_opt's quantize and prune: measured, refused, raised through. Needs no NumPy."""
import math
import os
import signal
import sys
import unittest

SOURCE = os.environ["INFER_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tools/packaging/python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import infer_opt  # noqa: E402
from demo_images import DIGITS, Demo  # noqa: E402


class Judge(Demo):
    def accuracy(self, session):
        """Share of right classes; the sessions that were asked, in order."""
        self.asked.append(session)
        rows = [session.run(image)[0].tolist()[0] for image in self.images[:50]]
        return sum(row.index(max(row)) == label for row, label in zip(rows, self.labels)) / len(rows)

    def setUp(self):
        super().setUp()
        self.asked, self.model = [], infer_opt.Model(DIGITS)
        self.before = self.bytes_of(self.model)

    def test_quantize(self):
        report = self.model.quantize(self.images[:40], eval_fn=self.accuracy, max_drop=0.05)
        asked, self.asked = self.asked, []
        golden, candidate = infer_opt.Session(DIGITS), infer_opt.Session(self.model.fuse())
        self.assertEqual(report.golden_metric, self.accuracy(golden))
        self.assertEqual(report.candidate_metric, self.accuracy(candidate))
        self.assertGreater(report.golden_metric, 0.9)
        self.assertEqual(report.recipe, "fast")
        self.assertGreater(report.integer_layers, 0)
        self.assertEqual(asked[1].inputs, self.model.inputs)

    def test_the_same_model_as_without(self):
        self.model.quantize(self.images[:40], recipe="fast", threads=1, eval_fn=self.accuracy, max_drop=math.inf)
        other = infer_opt.Model(DIGITS)
        report = other.quantize(self.images[:40], recipe="fast", threads=1)
        self.assertEqual(self.bytes_of(self.model), self.bytes_of(other))
        self.assertTrue(math.isnan(report.golden_metric) and math.isnan(report.candidate_metric))
        self.assertEqual(report.recipe, "fast")

    def test_two_bits_are_refused(self):
        """By a metric that is no share: the negative distance to the golden model's scores."""
        golden = infer_opt.Session(DIGITS).run(self.images[0])[0].tolist()[0]

        def closeness(session):
            self.asked.append(session)
            return -sum(abs(x - y) for x, y in zip(golden, session.run(self.images[0])[0].tolist()[0]))

        with self.assertRaises(infer_opt.Error) as caught:
            self.model.quantize(mode="weight-only", bits=2, block=256, eval_fn=closeness)
        self.assertEqual(caught.exception.code, "gate")
        self.assertRegex(str(caught.exception), r"weight-only: drop of the metric [\d.]+, limit 0\.005; -?[\d.e-]+ to -[\d.]+$")
        self.assertEqual(self.bytes_of(self.model), self.before)
        self.assertEqual(len(self.asked), 2)

    def test_prune(self):
        report = self.model.prune(sparsity=0.3, eval_fn=self.accuracy, max_drop=0.1)
        self.assertLessEqual(report.golden_metric - report.candidate_metric, 0.1)
        self.assertEqual(report.candidate_metric, self.accuracy(infer_opt.Session(self.model.fuse())))
        model = infer_opt.Model(DIGITS)
        with self.assertRaises(infer_opt.Error) as caught:
            model.prune(sparsity=0.97, eval_fn=self.accuracy)
        self.assertEqual(caught.exception.code, "gate")
        self.assertEqual(self.bytes_of(model), self.before)

    def test_recipes_until_one_is_taken(self):
        metrics = iter([1, 0.5, 0.5, 0.999])
        report = self.model.quantize(self.images[:30], eval_fn=lambda _: next(metrics))
        self.assertEqual((report.recipe, report.golden_metric, report.candidate_metric), ("best", 1, 0.999))

    def test_exceptions_come_out(self):
        class Mine(Exception):
            pass

        def fails_at(n, error):
            def evaluate(session):
                self.accuracy(session)
                if len(self.asked) == n:
                    raise error
                return 1.0
            return evaluate

        for n, error in [(1, Mine("here")), (2, Mine("there")), (2, KeyboardInterrupt()), (1, SystemExit(3))]:
            self.asked.clear()
            with self.assertRaises(type(error)) as caught:
                self.model.quantize(mode="dynamic", eval_fn=fails_at(n, error))
            self.assertIs(caught.exception, error)
            with self.assertRaises(type(error)):
                self.asked.clear()
                self.model.prune(sparsity=0.5, eval_fn=fails_at(n, error))
            self.assertEqual(self.bytes_of(self.model), self.before)

    def test_control_c(self):
        """A signal that comes while eval_fn works."""
        def evaluate(session):
            os.kill(os.getpid(), signal.SIGINT)
            return self.accuracy(session)

        with self.assertRaises(KeyboardInterrupt):
            self.model.quantize(mode="dynamic", eval_fn=evaluate)
        self.assertEqual(self.bytes_of(self.model), self.before)

    def test_what_is_no_number(self):
        for value in (None, "0.9", [0.9], {}, math.nan, -math.inf, object()):
            with self.assertRaises(infer_opt.Error) as caught:
                self.model.quantize(mode="dynamic", eval_fn=lambda _, v=value: v)
            self.assertEqual(caught.exception.code, "invalid argument")
            self.assertRegex(str(caught.exception), r"^eval_fn returned .*, where a finite number is wanted$")
        for options in ({"eval_fn": 0.9}, {"max_drop": 0.1}, {"eval_fn": self.accuracy, "max_drop": -0.1},
                        {"eval_fn": self.accuracy, "max_drop": math.nan}):
            with self.assertRaises(infer_opt.Error) as caught:
                self.model.quantize(mode="dynamic", **options)
            self.assertEqual(caught.exception.code, "invalid argument")
        self.assertFalse(self.asked)
        self.assertEqual(self.bytes_of(self.model), self.before)

    def test_session_is_closed_afterwards(self):
        self.model.quantize(mode="dynamic", eval_fn=self.accuracy, max_drop=1)
        for session in self.asked:
            with self.assertRaises(infer_opt.Error):
                session.run(self.images[0])

    def test_futures_of_a_candidate(self):
        def evaluate(session):
            futures = [session.submit(image) for image in self.images[:8]]
            return sum(len(f.result(30)) for f in futures)

        report = self.model.quantize(mode="dynamic", eval_fn=evaluate)
        self.assertEqual((report.golden_metric, report.candidate_metric), (8, 8))


if __name__ == "__main__":
    unittest.main()
