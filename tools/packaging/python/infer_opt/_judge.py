"""A caller's own measure of a model as the judge of what rewrites it."""
import math
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from ._library import Error

EvalFunction = Callable[[Any], Any]


class Scores(NamedTuple):
    """What eval_fn said: of the model before, of what was taken, and of each candidate in turn."""
    before: float
    after: float
    taken: str
    tried: List[Tuple[str, float]]


class Refused(Error):
    """No candidate was as good as it had to be; the model stays as it was. `before`: its score; `tried`: (candidate, score)."""

    def __init__(self, before, tried, allowed):
        self.before, self.tried = before, tried
        scores = ", ".join(f"{name} {score:.6g}" for name, score in tried)
        super().__init__(3, f"no candidate is within {allowed:.6g} of the model's score {before:.6g}: {scores}")


class Judge:
    def __init__(self, model, eval_fn, max_drop, higher_is_better, device, threads):
        if max_drop is not None and not max_drop >= 0:
            raise Error(1, f"max_drop {max_drop} is not 0 or more")
        self._model, self._eval = model, eval_fn
        self._max_drop, self._sign = max_drop, 1 if higher_is_better else -1
        self._session = {"device": device, "threads": threads}

    def first(self, candidates):
        """The report of the first candidate that is good enough, which the model then is. `candidates`: name, function of a model
        that rewrites it."""
        before = self._score(self._model, "the model")
        allowed = 0.01 * abs(before) if self._max_drop is None else self._max_drop
        tried = []
        for name, rewrite in candidates:
            candidate = self._model.clone()
            report = rewrite(candidate)
            tried.append((name, self._score(candidate, name)))
            if self._sign * (before - tried[-1][1]) <= allowed:
                self._model._take(candidate)
                return report._replace(scores=Scores(before, tried[-1][1], name, tried))
        raise Refused(before, tried, allowed)

    def _score(self, model, name):
        from ._session import Session  # which needs Model
        with Session(model, **self._session) as session:
            score = self._eval(session)
        try:
            score = float(score)
        except (TypeError, ValueError):
            raise Error(1, f"eval_fn gave {score!r} for {name}, not a number") from None
        if not math.isfinite(score):
            raise Error(1, f"eval_fn gave {score} for {name}")
        return score


def no_judge(max_drop: Optional[float]) -> None:
    if max_drop is not None:
        raise Error(1, "max_drop goes with eval_fn")
