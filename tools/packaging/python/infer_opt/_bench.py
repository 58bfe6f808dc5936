"""Measured times: the program infer-bench in processes of its own, where neither Python's threads nor its collector take part."""
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._library import CODES, Error, version
from ._model import Model

_Source = Union[Model, str, os.PathLike, bytes]
# Exit codes of the commands -> names of CODES.
_EXITS = {1: "gate", 2: "invalid argument", 3: "invalid model", 4: "unsupported", 5: "io", 70: "internal", 71: "resource"}
_DECIDED = (0, 1, 6)  # of a comparison: a verdict, B is slower, inconclusive


class BenchReport(NamedTuple):
    """Of `infer-bench run`; milliseconds of one run after the warm-up. median_ci95_ms: 95 % interval of the median. p99_ms: None where
    the runs are too few for it. warmup_stable: False where the times had not settled when the warm-up ended. report: all of
    infer-bench's, docs/json-fields.md; `warnings` says what may have disturbed the measurement."""
    median_ms: float
    median_ci95_ms: Tuple[float, float]
    min_ms: float
    p90_ms: Optional[float]
    p99_ms: Optional[float]
    throughput_per_s: float
    runs: int
    warmup_runs: int
    warmup_stable: bool
    threads: int
    load_ms: float
    compile_ms: float
    first_ms: float
    warnings: List[str]
    report: Dict[str, Any]


class SpeedReport(NamedTuple):
    """Of `infer-bench compare`. verdict: of the second model: "same", "faster", "slower", "inconclusive". change: of its time, 0.05 where
    it takes 5 % longer, with its 95 % interval; None where nothing was measured. medians_ms: of the first and the second model."""
    verdict: str
    change: Optional[float]
    change_ci95: Optional[Tuple[float, float]]
    medians_ms: Tuple[float, float]
    starts: int
    seconds: float
    warnings: List[str]
    report: Dict[str, Any]


def bench(model: _Source, *, threads: Optional[int] = None, batch: Optional[int] = None, runs: Optional[int] = None,
          min_time: Optional[float] = None, max_time: Optional[float] = None, warmup: Optional[int] = None, cold: Optional[int] = None,
          device: Optional[str] = None, options: Sequence[str] = ()) -> BenchReport:
    """What `infer-bench run` measures of one model, with the command's defaults and made-up inputs.

    runs: exactly so many, instead of by min_time and max_time, in seconds. warmup: exactly so many runs, instead of until the times
    settle. cold: starts of fresh processes. options: further ones of the command, as ["--seq", "length=128"]; one cell at a time."""
    given = [(f"--{name.replace('_', '-')}", value) for name, value in
             [("threads", threads), ("batch", batch), ("runs", runs), ("min_time", min_time), ("max_time", max_time), ("warmup", warmup),
              ("cold", cold), ("device", device)]]
    report, _ = _run("run", [model], [*_words(given), *options], (0,))
    if len(report["results"]) != 1:
        raise Error(1, f"{len(report['results'])} cells were measured: bench() tells one model, batch and number of threads at a time")
    [cell] = report["results"]
    latency, warm = cell["latency_ms"], cell["warmup"]
    return BenchReport(latency["median"], tuple(latency["median_ci95"]), latency["min"], latency["p90"], latency["p99"],
                       cell["throughput_per_s"], latency["runs"], warm["runs"], warm["stable"], cell["threads"], cell["load_ms"],
                       cell["compile_ms"], cell["first_ms"], report["warnings"], report)


def compare_speed(a: _Source, b: _Source, *, threads: Optional[int] = None, budget: Optional[float] = None,
                  min_effect: Optional[float] = None, device: Optional[str] = None, options: Sequence[str] = ()) -> SpeedReport:
    """What `infer-bench compare` says of the time of b beside that of a: measured in turn, in fresh processes, with a verdict.

    budget: seconds of measuring, about. min_effect: a change that counts, as a share. options: further ones of the command."""
    share = None if min_effect is None else f"{100 * min_effect}%"
    given = [("--threads", threads), ("--budget", budget), ("--min-effect", share), ("--device", device)]
    report, said = _run("compare", [a, b], [*_words(given), *options], _DECIDED)
    if "verdict" not in report:
        raise Error(1, said)
    effect = report["effect"] or {"value": None, "ci95": None}
    sides = [_median([start["median_ms"] for start in side["starts"]]) for side in report["sides"]]
    return SpeedReport(report["verdict"], effect["value"], tuple(effect["ci95"]) if effect["ci95"] else None, tuple(sides),
                       min(len(side["starts"]) for side in report["sides"]), report["seconds"], report["warnings"], report)


def _median(numbers):
    numbers = sorted(numbers)
    middle = len(numbers) // 2
    if not numbers:
        return float("nan")
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def _words(given):
    return [word for name, value in given if value is not None for word in (name, str(value))]


def _program():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "infer-bench")
    path = os.environ.get("INFER_BENCH") or (beside if os.path.exists(beside) else shutil.which("infer-bench"))
    if not path:
        raise Error(CODES.index("io"), "infer-bench is neither beside this module nor on PATH, and INFER_BENCH does not name it")
    return path


def _run(command, models, options, fine):
    """The report, and what the program said. fine: exit codes with a report."""
    program = _program()
    with tempfile.TemporaryDirectory(prefix="infer_opt_") as work:
        paths = [_path_of(model, os.path.join(work, f"model_{i}.onnx")) for i, model in enumerate(models)]
        out = os.path.join(work, "report.json")
        code, said = _wait([program, command, *paths, *map(str, options), "--json", out])
        if code not in fine or not os.path.exists(out):
            name = _EXITS.get(code, "internal")
            raise Error(CODES.index(name), _last_line(said) or f"infer-bench {command} ended with code {code}")
        with open(out, encoding="utf-8") as f:
            report = json.load(f)
    if report["tool"]["version"] != version():
        raise Error(CODES.index("unsupported"), f"{program} has version {report['tool']['version']}, the library {version()}")
    return report, _last_line(said)


def _path_of(model, path):
    if isinstance(model, Model):
        model.save(path)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        with open(path, "wb") as f:
            f.write(model)
    else:
        return os.path.abspath(os.fsdecode(model))
    return path


def _wait(arguments):
    """Exit code and standard error. An exception of this process, as that of Ctrl-C, ends the program first."""
    try:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as e:
        raise Error(CODES.index("io"), f"{arguments[0]}: {e.strerror}") from None
    try:
        _, said = process.communicate()
    except BaseException:
        process.terminate()  # it ends its own children
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stderr.close()
        raise
    return process.returncode, said.decode("utf-8", "replace")


def _last_line(said):
    """The error that the program ended with, without its name."""
    lines = [line.partition(": ")[2] for line in said.splitlines() if line.startswith("infer-bench ")]
    errors = [line for line in lines if line and not line.startswith("warning: ")]
    return errors[-1] if errors else ""
