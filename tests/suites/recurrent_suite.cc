/// LSTM, GRU and RNN against the reference: one and both directions, both layouts, states, biases,
/// lengths, peepholes; extents around the width of panels and blocks of samples.
#include "lib/support/isa.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

struct Cell {
  std::string_view op;
  int64_t gates;
};
constexpr Cell kCells[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};

struct Case {
  int64_t steps = 5, batch = 2, input = 3, hidden = 4;
  std::string_view direction = "forward";
  bool bias = true, states = false, lengths = false, batch_first = false, constant = true;
  bool peepholes = false;
  std::string_view outputs = "y, h";
  std::string_view more = "";
};

void Check(const Cell& cell, const Case& c) {
  const bool lstm = cell.op == "LSTM";
  const int64_t dirs = c.direction == "bidirectional" ? 2 : 1, rows = cell.gates * c.hidden;
  const std::string x = c.batch_first ? Cat(c.batch, ",", c.steps) : Cat(c.steps, ",", c.batch);
  const std::string state = c.batch_first ? Cat(c.batch, ",", dirs, ",", c.hidden)
                                          : Cat(dirs, ",", c.batch, ",", c.hidden);
  const std::string w = Cat("f32[", dirs, ",", rows, ",", c.input, "]"),
                    r = Cat("f32[", dirs, ",", rows, ",", c.hidden, "]");
  std::string text = Cat("graph g(x: f32[", x, ",", c.input, "]");
  if (!c.constant) text += Cat(", w: ", w, ", r: ", r);
  if (c.states) text += Cat(", h0: f32[", state, "]", lstm ? Cat(", c0: f32[", state, "]") : "");
  text += Cat(") -> (", lstm && c.outputs == "y, h" ? "y, h, k" : c.outputs, ") { ");
  if (c.constant) text += Cat("w = const ", w, " ~1 r = const ", r, " ~2 ");
  if (c.bias) text += Cat("b = const f32[", dirs, ",", 2 * rows, "] ~3 ");
  if (c.lengths) {
    std::vector<std::string> lengths;
    for (int64_t b = 0; b < c.batch; ++b) lengths.push_back(Cat((b * 3 + 1) % (c.steps + 1)));
    text += Cat("l = const i32[", c.batch, "] {", Join(lengths, ","), "} ");
  }
  if (c.peepholes) text += Cat("p = const f32[", dirs, ",", 3 * c.hidden, "] ~4 ");
  text += Cat(lstm && c.outputs == "y, h" ? "y, h, k"
              : c.outputs == "h"          ? "_, h"
                                          : c.outputs,
              " = ", cell.op, "(x, w, r, ", c.bias ? "b" : "_", ", ", c.lengths ? "l" : "_", ", ",
              c.states ? "h0" : "_", lstm ? Cat(", ", c.states ? "c0" : "_") : "",
              c.peepholes ? ", p" : "", ") {hidden_size=", c.hidden, ", direction=\"", c.direction,
              "\", layout=", c.batch_first ? 1 : 0, c.more, "} }");
  const auto steps = CheckGraph(text, 5, 2e-5);
  if (BackendUnderTest().name() == "cpu" && !steps.empty()) {
    EXPECT_NE(steps.back().kernel, "reference") << text;
  }
}

/// An RNN of such weights is chaotic: its rounding errors multiply from step to step, so it walks
/// few.
TEST(Recurrent, Extents) {
  for (const Cell& cell : kCells) {
    const bool rnn = cell.gates == 1;
    const int64_t few = rnn ? 2 : 5;
    for (int64_t hidden : {1, 7, 8, 16, 31, 33, 64})
      Check(cell, {.steps = few, .input = 9, .hidden = hidden});
    for (int64_t batch : {1, 3, 4, 7, 8, 9, 17})
      Check(cell, {.steps = few, .batch = batch, .hidden = 21});
    for (int64_t steps : {1, 2, 33}) Check(cell, {.steps = steps, .hidden = rnn ? 1 : 12});
  }
}

TEST(Recurrent, Forms) {
  for (const Cell& cell : kCells)
    for (std::string_view direction : {"forward", "reverse", "bidirectional"})
      for (bool batch_first : {false, true}) {
        Check(cell, {.direction = direction, .batch_first = batch_first});
        Check(cell,
              {.direction = direction, .bias = false, .states = true, .batch_first = batch_first});
        Check(cell, {.batch = 9,
                     .direction = direction,
                     .states = true,
                     .lengths = true,
                     .batch_first = batch_first});
        Check(cell, {.direction = direction, .batch_first = batch_first, .constant = false});
      }
}

/// PyTorch's other choice for an RNN.
TEST(Recurrent, Relu) {
  for (bool states : {false, true}) {
    Check(kCells[2], {.hidden = 19, .states = states, .more = ", activations=[\"Relu\"]"});
    Check(kCells[2], {.batch = 9,
                      .direction = "bidirectional",
                      .states = states,
                      .more = ", activations=[\"Relu\", \"Relu\"]"});
  }
  CheckGraph(
      "graph g(x: f32[2,2,4], w: f32[2,3,4], r: f32[2,3,3]) -> (y) { y = RNN(x, w, r) "
      "{hidden_size=3, direction=\"bidirectional\", activations=[\"Relu\", \"Tanh\"]} }");
}

/// Older Keras has hard sigmoids; clip bounds what goes into them.
TEST(Recurrent, UnusualActivations) {
  const std::string_view hard = "activation_alpha=[0.2, 0.2], activation_beta=[0.5, 0.5]";
  for (const int64_t batch : {1, 9}) {
    for (const std::string& more :
         {Cat(", activations=[\"HardSigmoid\", \"Relu\", \"Tanh\"], ", hard),
          std::string(", clip=0.4"), std::string(", input_forget=1"),
          std::string(", activations=[\"Sigmoid\", \"Softsign\", \"Elu\"], clip=0.7")}) {
      Check(kCells[0], {.batch = batch, .hidden = 19, .states = true, .more = more});
      Check(kCells[0], {.batch = batch, .hidden = 7, .peepholes = true, .more = more});
    }
    for (std::string_view reset : {"0", "1"})
      for (const std::string& more :
           {Cat(", activations=[\"HardSigmoid\", \"Tanh\"], ", hard), std::string(", clip=0.4")})
        Check(kCells[1], {.batch = batch,
                          .hidden = 19,
                          .direction = "bidirectional",
                          .more = Cat(more, ", linear_before_reset=", reset)});
    Check(kCells[2], {.batch = batch, .hidden = 9, .more = ", activations=[\"Relu\"], clip=0.3"});
  }
}

TEST(Recurrent, WantedOutputs) {
  for (const Cell& cell : kCells)
    for (std::string_view outputs : {"y", "h"}) Check(cell, {.outputs = outputs});
}

/// What computes its operand, in f32 and in halves, looks for steps to take in.
TEST(Recurrent, OnlyTheLastStateOfWhatIsComputed) {
  for (std::string_view t : {"f32", "f16"}) {
    const auto check = [t](std::string_view op, int gates) {
      CheckGraph(
          Cat("graph g(x: ", t, "[3,2,4], w: ", t, "[1,", gates * 2, ",4], r: ", t, "[1,",
              gates * 2, ",2]) -> (h) { a = Relu(x) _, h = ", op, "(a, w, r) {hidden_size=2} }"),
          1, t == "f16" ? 2e-3 : 1e-5);
    };
    for (const Cell& cell : kCells) check(cell.op, cell.gates);
  }
}

TEST(Recurrent, PeepholesAndResets) {
  for (std::string_view direction : {"forward", "bidirectional"}) {
    Check(kCells[0], {.hidden = 19, .direction = direction, .peepholes = true});
    for (std::string_view more : {", linear_before_reset=1", ", linear_before_reset=0"})
      for (bool constant : {true, false})
        Check(kCells[1], {.hidden = 19,
                          .direction = direction,
                          .states = true,
                          .constant = constant,
                          .more = more});
  }
}

/// 8-bit weights: X is rounded to a range of its own, the states of all samples to one of the step.
TEST(Recurrent, QuantizedLstm) {
  const auto check = [](int64_t batch, int64_t hidden, std::string_view direction,
                        std::string_view type, bool per_column, bool states) {
    const int64_t dirs = direction == "bidirectional" ? 2 : 1, rows = 4 * hidden;
    const std::string n = per_column ? Cat(dirs, ",", rows) : Cat(dirs);
    const std::string state = Cat("f32[", dirs, ",", batch, ",", hidden, "]");
    std::vector<std::string> scales, zeros;
    for (int64_t i = 0; i < dirs * (per_column ? rows : 1); ++i) {
      scales.push_back(FormatDouble(0.1 * (1 + static_cast<double>(i % 3) * 0.25)));
      zeros.push_back(Cat(i % 2));
    }
    const auto steps = CheckGraph(
        Cat("graph g(x: f32[7,", batch, ",9]",
            states ? Cat(", h0: ", state, ", c0: ", state) : std::string(),
            ") -> (y, h, k) { w = ", "const ", type, "[", dirs, ",9,", rows, "] ~1 r = const ",
            type, "[", dirs, ",", hidden, ",", rows, "] ~2 b = const f32[", dirs, ",", 2 * rows,
            "] ~3 s = const f32[", n, "] {", Join(scales, ","), "} z = const ", type, "[", n, "] {",
            Join(zeros, ","), "} y, h, k = com.microsoft::DynamicQuantizeLSTM(x, w, r, b, _, ",
            states ? "h0, c0" : "_, _", ", _, s, z, s, z) {hidden_size=", hidden, ", direction=\"",
            direction, "\"} }"),
        5, 2e-5);
    if (BackendUnderTest().name() == "cpu" && !steps.empty()) {
      EXPECT_NE(steps.back().kernel, "reference") << Join(steps.back().refusals, "; ");
      if (RunsIsa(Isa::kVnni)) {
        EXPECT_THAT(steps.back().kernel, testing::StartsWith("own:bytes"));
      }
    }
  };
  for (std::string_view type : {"u8", "i8"})
    for (std::string_view direction : {"forward", "reverse", "bidirectional"})
      for (const bool per_column : {false, true})
        check(3, 21, direction, type, per_column, per_column);
  check(1, 64, "forward", "i8", true, false);
  for (std::string_view type : {"u8", "i8"})
    for (int64_t hidden : {21, 64}) check(1, hidden, "bidirectional", type, false, true);
  check(37, 12, "forward", "i8", true, true);  // more than a block of samples elsewhere
}

/// Symmetric weights, whose products are added to the gates as they are, and steps whose states are
/// all 0 or of one sign.
TEST(Recurrent, QuantizedLstmOfSymmetricWeights) {
  for (int64_t batch : {1, 4}) {
    const std::string text = Cat(
        "graph g(x: f32[9,", batch,
        ",37]) -> (y, h, k) { w = const i8[2,37,160] ~1 "
        "r = const i8[2,40,160] ~2 b = const f32[2,320] ~3 s = const f32[2] {0.02, 0.01} "
        "z = const i8[2] {0, 0} y, h, k = com.microsoft::DynamicQuantizeLSTM(x, w, r, b, _, _, _, "
        "_, s, z, s, z) {hidden_size=40, direction=\"bidirectional\"} }");
    ExpectFast(CheckGraph(text, 5, 2e-5));
    CheckSameBits(text);
  }
}

/// One sample of a wide cell: its panels are what lanes can take.
TEST(Recurrent, WideStep) {
  for (const Cell& cell : kCells) Check(cell, {.steps = 2, .batch = 1, .input = 8, .hidden = 600});
}

}  // namespace
}  // namespace infer
