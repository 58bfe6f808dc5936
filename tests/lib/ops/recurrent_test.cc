/// RNN, GRU, LSTM against the specification's formulas, one unit at a time.
#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Problem {
  int64_t steps, batch, input, hidden, dirs, gates;
  bool batch_first, reverse, linear_before_reset, input_forget;
  double clip;
  Tensor x, w, r, b, lengths, h0, c0, p;
};

struct State {
  std::vector<double> h, c;
};

double Clip(const Problem& q, double v) { return std::min(q.clip, std::max(-q.clip, v)); }

/// (X_t W' + bias_w)[row] of gate row `row`.
double InputPart(const Problem& q, int64_t d, int64_t s, int64_t b, int64_t row) {
  double sum = q.b.defined() ? q.b.At(d * 2 * q.gates * q.hidden + row) : 0;
  const int64_t at = (q.batch_first ? b * q.steps + s : s * q.batch + b) * q.input;
  for (int64_t i = 0; i < q.input; ++i)
    sum += q.x.At(at + i) * q.w.At((d * q.gates * q.hidden + row) * q.input + i);
  return sum;
}

double RecurrentBias(const Problem& q, int64_t d, int64_t row) {
  return q.b.defined() ? q.b.At((d * 2 + 1) * q.gates * q.hidden + row) : 0;
}

double RecurrentPart(const Problem& q, int64_t d, const std::vector<double>& h, int64_t row) {
  double sum = 0;
  for (int64_t k = 0; k < q.hidden; ++k)
    sum += h[static_cast<size_t>(k)] * q.r.At((d * q.gates * q.hidden + row) * q.hidden + k);
  return sum;
}

State Step(const Problem& q, int64_t d, int64_t s, int64_t b, const State& old) {
  State next = old;
  const int64_t n = q.hidden;
  auto gate = [&](int64_t g, int64_t j) {
    const int64_t row = g * n + j;
    return InputPart(q, d, s, b, row) + RecurrentPart(q, d, old.h, row) + RecurrentBias(q, d, row);
  };
  for (int64_t j = 0; j < n; ++j) {
    const auto u = static_cast<size_t>(j);
    if (q.gates == 1) {
      next.h[u] = std::tanh(Clip(q, gate(0, j)));
    } else if (q.gates == 3) {
      const double z = Sigmoid(Clip(q, gate(0, j)));
      auto reset = [&](int64_t k) { return Sigmoid(Clip(q, gate(1, k))); };
      double inner = InputPart(q, d, s, b, 2 * n + j);
      if (q.linear_before_reset) {
        inner +=
            reset(j) * (RecurrentPart(q, d, old.h, 2 * n + j) + RecurrentBias(q, d, 2 * n + j));
      } else {
        std::vector<double> rh;
        for (int64_t k = 0; k < n; ++k) rh.push_back(reset(k) * old.h[static_cast<size_t>(k)]);
        inner += RecurrentPart(q, d, rh, 2 * n + j) + RecurrentBias(q, d, 2 * n + j);
      }
      next.h[u] = (1 - z) * std::tanh(Clip(q, inner)) + z * old.h[u];
    } else {
      auto peep = [&](int64_t which) {
        return q.p.defined() ? q.p.At((d * 3 + which) * n + j) : 0.0;
      };
      const double i = Sigmoid(Clip(q, gate(0, j) + peep(0) * old.c[u]));
      const double f = q.input_forget ? 1 - i : Sigmoid(Clip(q, gate(2, j) + peep(2) * old.c[u]));
      next.c[u] = f * old.c[u] + i * std::tanh(Clip(q, gate(3, j)));
      const double o = Sigmoid(Clip(q, gate(1, j) + peep(1) * next.c[u]));
      next.h[u] = o * std::tanh(Clip(q, next.c[u]));
    }
  }
  return next;
}

void ExpectSame(const Problem& q, const OpResult& got) {
  const Tensor &y = got.outputs[0], &y_h = got.outputs[1];
  for (int64_t d = 0; d < q.dirs; ++d)
    for (int64_t b = 0; b < q.batch; ++b) {
      const int64_t state_at = (q.batch_first ? b * q.dirs + d : d * q.batch + b) * q.hidden;
      State st{std::vector<double>(static_cast<size_t>(q.hidden)), {}};
      st.c = st.h;
      for (int64_t j = 0; j < q.hidden; ++j) {
        if (q.h0.defined()) st.h[static_cast<size_t>(j)] = q.h0.At(state_at + j);
        if (q.c0.defined()) st.c[static_cast<size_t>(j)] = q.c0.At(state_at + j);
      }
      const int64_t length = q.lengths.defined() ? q.lengths.IntAt(b) : q.steps;
      if (q.lengths.defined() && length == 0)  // no last value: zeros like Y
        for (auto* state : {&st.h, &st.c}) std::fill(state->begin(), state->end(), 0.0);
      const bool reverse = d == 1 || q.reverse;
      auto at = [&](int64_t s) {
        return (q.batch_first ? (b * q.steps + s) * q.dirs + d : (s * q.dirs + d) * q.batch + b) *
               q.hidden;
      };
      for (int64_t i = 0; i < length; ++i) {
        const int64_t s = reverse ? length - 1 - i : i;
        st = Step(q, d, s, b, st);
        for (int64_t j = 0; j < q.hidden; ++j)
          ASSERT_NEAR(y.At(at(s) + j), st.h[static_cast<size_t>(j)], 1e-6);
      }
      for (int64_t s = length; s < q.steps; ++s)
        for (int64_t j = 0; j < q.hidden; ++j) ASSERT_EQ(y.At(at(s) + j), 0);
      for (int64_t j = 0; j < q.hidden; ++j) {
        ASSERT_NEAR(y_h.At(state_at + j), st.h[static_cast<size_t>(j)], 1e-6);
        if (got.outputs.size() > 2) {
          ASSERT_NEAR(got.outputs[2].At(state_at + j), st.c[static_cast<size_t>(j)], 1e-6);
        }
      }
    }
}

TEST(Recurrent, EqualsTheFormulasOnGeneratedProblems) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const std::string op = std::vector<std::string>{"RNN", "GRU", "LSTM"}[seed % 3];
    Problem q{};
    q.gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
    q.steps = 1 + r.Below(5), q.batch = 1 + r.Below(3);
    q.input = 1 + r.Below(4), q.hidden = 1 + r.Below(5);
    const uint32_t direction = r.Below(3);
    q.dirs = direction == 2 ? 2 : 1;
    q.reverse = direction == 1;
    q.batch_first = r.Below(2);
    q.linear_before_reset = q.gates == 3 && r.Below(2);
    q.input_forget = q.gates == 4 && r.Below(3) == 0;
    q.clip = r.Below(3) == 0 ? 0.4 : INFINITY;
    auto random = [&](Dims dims) { return RandomTensor(r, DType::kF32, std::move(dims)); };
    const int64_t rows = q.gates * q.hidden;
    q.x = random(q.batch_first ? Dims{q.batch, q.steps, q.input} : Dims{q.steps, q.batch, q.input});
    q.w = random({q.dirs, rows, q.input});
    q.r = random({q.dirs, rows, q.hidden});
    const Dims state =
        q.batch_first ? Dims{q.batch, q.dirs, q.hidden} : Dims{q.dirs, q.batch, q.hidden};
    if (r.Below(2)) q.b = random({q.dirs, 2 * rows});
    if (r.Below(2)) q.h0 = random(state);
    if (r.Below(2) && q.gates == 4) q.c0 = random(state);
    if (r.Below(2) && q.gates == 4) q.p = random({q.dirs, 3 * q.hidden});
    if (r.Below(2)) {
      q.lengths = Tensor(DType::kI32, {q.batch});
      for (int64_t b = 0; b < q.batch; ++b)
        q.lengths.SetInt(b, r.Below(static_cast<uint32_t>(q.steps + 1)));
    }
    AttrMap attrs = {
        {"hidden_size", q.hidden},
        {"layout", int64_t{q.batch_first}},
        {"direction", std::vector<std::string>{"forward", "reverse", "bidirectional"}[direction]}};
    if (std::isfinite(q.clip)) {
      attrs["clip"] = 0.4f;
      q.clip = static_cast<double>(0.4f);
    }
    if (q.gates == 3) attrs["linear_before_reset"] = int64_t{q.linear_before_reset};
    if (q.gates == 4) attrs["input_forget"] = int64_t{q.input_forget};
    std::vector<Tensor> in = {q.x, q.w, q.r, q.b, q.lengths, q.h0};
    if (q.gates == 4) in.insert(in.end(), {q.c0, q.p});
    const OpResult got = RunOp(op, attrs, in, q.gates == 4 ? 3 : 2);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    ExpectSame(q, got);
  }
}

TEST(Recurrent, ActivationsTakeTheirParametersInOrder) {
  // H = f(x w), one unit, one step: the activation itself.
  auto value = [](const std::string& name, std::vector<float> alpha, std::vector<float> beta,
                  float x) {
    AttrMap attrs = {{"activations", std::vector<std::string>{name}}};
    if (!alpha.empty()) attrs["activation_alpha"] = alpha;
    if (!beta.empty()) attrs["activation_beta"] = beta;
    const OpResult got =
        RunOp("RNN", attrs,
              {Tensor::Of<float>({1, 1, 1}, {x}), Tensor::Of<float>({1, 1, 1}, {1}),
               Tensor::Of<float>({1, 1, 1}, {0})});
    EXPECT_TRUE(got.status.ok()) << got.status.message();
    return got.y().At(0);
  };
  EXPECT_FLOAT_EQ(value("Relu", {}, {}, -2), 0);
  EXPECT_FLOAT_EQ(value("LeakyRelu", {}, {}, -2), -0.02);
  EXPECT_FLOAT_EQ(value("LeakyRelu", {0.5}, {}, -2), -1);
  EXPECT_FLOAT_EQ(value("Affine", {2}, {3}, 4), 11);
  EXPECT_FLOAT_EQ(value("ThresholdedRelu", {}, {}, 0.5), 0);
  EXPECT_FLOAT_EQ(value("ScaledTanh", {2}, {0.5}, 1), 2 * std::tanh(0.5));
  EXPECT_FLOAT_EQ(value("HardSigmoid", {}, {}, 1), 0.7);
  EXPECT_FLOAT_EQ(value("Elu", {2}, {}, -1), 2 * std::expm1(-1));
  EXPECT_FLOAT_EQ(value("Softsign", {}, {}, -3), -0.75);
  EXPECT_FLOAT_EQ(value("Softplus", {}, {}, 0), std::log(2));
  EXPECT_FLOAT_EQ(value("sigmoid", {}, {}, 0), 0.5);
  const OpResult unknown =
      RunOp("RNN", {{"activations", std::vector<std::string>{"Mish"}}},
            {Tensor::Zeros(DType::kF32, {1, 1, 1}), Tensor::Zeros(DType::kF32, {1, 1, 1}),
             Tensor::Zeros(DType::kF32, {1, 1, 1})});
  EXPECT_EQ(unknown.status.code(), Code::kUnsupported);
}

TEST(Recurrent, WrongExtentsAreRefused) {
  auto zeros = [](Dims d) { return Tensor::Zeros(DType::kF32, std::move(d)); };
  const Tensor x = zeros({2, 1, 3}), w = zeros({1, 16, 3}), r = zeros({1, 16, 4});
  EXPECT_TRUE(RunOp("LSTM", {}, {x, w, r}).status.ok());
  EXPECT_FALSE(RunOp("LSTM", {}, {x, zeros({1, 16, 2}), r}).status.ok());
  EXPECT_FALSE(RunOp("LSTM", {}, {x, zeros({1, 12, 3}), r}).status.ok());
  EXPECT_FALSE(RunOp("LSTM", {{"hidden_size", int64_t{5}}}, {x, w, r}).status.ok());
  EXPECT_FALSE(RunOp("LSTM", {}, {x, w, r, zeros({1, 16})}).status.ok());
  EXPECT_FALSE(
      RunOp("LSTM", {}, {x, w, r, {}, Tensor::Of<int32_t>({1}, {3})}).status.ok());  // of 2 steps
  EXPECT_FALSE(RunOp("LSTM", {{"direction", std::string("both")}}, {x, w, r}).status.ok());
  EXPECT_TRUE(RunOp("LSTM", {{"clip", 0.5f}}, {x, w, r}).status.ok());
  EXPECT_FALSE(RunOp("LSTM", {{"clip", -1.f}}, {x, w, r}).status.ok());
  EXPECT_FALSE(RunOp("LSTM", {{"clip", NAN}}, {x, w, r}).status.ok());
}

}  // namespace
}  // namespace infer
