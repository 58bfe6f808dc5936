#pragma once
/// Random networks over the operators that pruning of channels knows: images and tokens, with
/// residual sums, parts, shuffles, gates, grouped convolutions, heads of attention.
#include <map>
#include <string>

#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {

/// Writes a graph in text form, one block after the other.
class RandomNet {
 public:
  explicit RandomNet(uint64_t seed) : random_(seed) {}

  std::string Make() { return random_.Below(3) == 0 ? Tokens() : Images(); }
  /// How often each kind of block was written.
  const std::map<std::string, int>& kinds() const { return kinds_; }

 private:
  struct Image {
    std::string name;
    int64_t c, h, w;
  };

  int64_t Pick(std::initializer_list<int64_t> from) {
    return *(from.begin() + random_.Below(from.size()));
  }
  std::string Fresh(const char* stem) { return Cat(stem, next_++); }
  std::string Line(const std::string& name, const std::string& call) {
    text_ += Cat("  ", name, " = ", call, "\n");
    return name;
  }
  std::string Call(const char* stem, const std::string& call) { return Line(Fresh(stem), call); }
  std::string Weights(const std::string& dims) {
    return Call("w", Cat("const f32[", dims, "] ~", 1 + random_.Below(1000)));
  }
  std::string Places(std::initializer_list<int64_t> dims, const char* type) {
    std::string list;
    for (const int64_t d : dims) list += Cat(list.empty() ? "" : ", ", d);
    return Call("s", Cat("const ", type, "[", dims.size(), "] {", list, "}"));
  }
  std::string Shape(std::initializer_list<int64_t> dims) { return Places(dims, "i64"); }
  std::string Act(const std::string& x) {
    switch (random_.Below(7)) {
      case 0: return Call("a", Cat("Sigmoid(", x, ")"));
      case 1: return Call("a", Cat("Tanh(", x, ")"));
      case 2: return Call("a", Cat("LeakyRelu(", x, ")"));
      case 3: return Call("a", Cat("HardSwish(", x, ")"));
      case 4: return x;
      default: return Call("a", Cat("Relu(", x, ")"));
    }
  }

  Image Conv(const Image& x, int64_t out, int64_t kernel, int64_t group = 1) {
    const std::string w = Weights(Cat(out, ",", x.c / group, ",", kernel, ",", kernel));
    const std::string b = random_.Below(2) == 0 ? Cat(", ", Weights(Cat(out))) : "";
    const int64_t pad = kernel / 2;
    return {Call("c", Cat("Conv(", x.name, ", ", w, b, ") {group=", group, ", pads=[", pad, ", ",
                          pad, ", ", pad, ", ", pad, "]}")),
            out, x.h, x.w};
  }
  Image ConvAct(const Image& x, int64_t out, int64_t kernel, int64_t group = 1) {
    Image y = Conv(x, out, kernel, group);
    y.name = Act(y.name);
    return y;
  }

  std::string EveryOther(const Image& x, int64_t first) {
    return Call("l", Cat("Slice(", x.name, ", ", Shape({first}), ", ", Shape({x.c}), ", ",
                         Shape({1}), ", ", Shape({2}), ")"));
  }

  Image Block(const Image& x) {
    const uint64_t kind = random_.Below(24);
    switch (kind) {
      case 0: ++kinds_["conv"]; return ConvAct(x, Pick({4, 6, 8, 12}), Pick({1, 3}));
      case 1: ++kinds_["depthwise"]; return ConvAct(x, x.c, 3, x.c);
      case 2:
        if (x.c % 2 != 0) break;
        ++kinds_["grouped"];
        return ConvAct(x, Pick({4, 8, 12}), 1, 2);
      case 3: {
        ++kinds_["residual"];
        const Image y = Conv(ConvAct(x, Pick({4, 6, 8}), 3), x.c, 3);
        return {Act(Call("r", Cat("Add(", x.name, ", ", y.name, ")"))), x.c, x.h, x.w};
      }
      case 4: {
        ++kinds_["concat"];
        const Image a = ConvAct(x, Pick({4, 6}), 1), b = ConvAct(x, Pick({4, 8}), 3);
        return {Call("k", Cat("Concat(", a.name, ", ", b.name, ") {axis=1}")), a.c + b.c, x.h, x.w};
      }
      case 5: {
        if (x.c < 4) break;
        ++kinds_["split"];
        const int64_t first = x.c / 2;
        const std::string p = Fresh("p"), q = Fresh("q");
        if (x.c % 2 == 0 && random_.Below(2) == 0) {
          text_ += Cat("  ", p, ", ", q, " = Split(", x.name, ") {axis=1, num_outputs=2}\n");
        } else {
          const std::string s = Shape({first, x.c - first});
          text_ += Cat("  ", p, ", ", q, " = Split(", x.name, ", ", s, ") {axis=1}\n");
        }
        const Image a = ConvAct({p, first, x.h, x.w}, first, 1);
        return {Call("k", Cat("Concat(", q, ", ", a.name, ") {axis=1}")), x.c, x.h, x.w};
      }
      case 6: {
        if (x.c < 6) break;
        ++kinds_["slice"];
        const int64_t from = 1, to = x.c - 2;
        const char* type = random_.Below(2) == 0 ? "i32" : "i64";
        return {Call("l", Cat("Slice(", x.name, ", ", Places({from}, type), ", ",
                              Places({to}, type), ", ", Places({1}, type), ")")),
                to - from, x.h, x.w};
      }
      case 7: {
        ++kinds_["gate"];
        const std::string pooled = Call("g", Cat("GlobalAveragePool(", x.name, ")"));
        const Image s = ConvAct({pooled, x.c, 1, 1}, Pick({2, 4}), 1);
        const Image e = Conv(s, x.c, 1);
        const std::string gate = Call("g", Cat("Sigmoid(", e.name, ")"));
        return {Call("m", Cat("Mul(", x.name, ", ", gate, ")")), x.c, x.h, x.w};
      }
      case 8: {
        ++kinds_["batchnorm"];
        const std::string dims = Cat(x.c), positive = Weights(dims);
        const std::string var = Call("v", Cat("Exp(", positive, ")"));
        return {Call("n", Cat("BatchNormalization(", x.name, ", ", Weights(dims), ", ",
                              Weights(dims), ", ", Weights(dims), ", ", var, ")")),
                x.c, x.h, x.w};
      }
      case 9:
        ++kinds_["instancenorm"];
        return {Call("n", Cat("InstanceNormalization(", x.name, ", ", Weights(Cat(x.c)), ", ",
                              Weights(Cat(x.c)), ")")),
                x.c, x.h, x.w};
      case 10:
        if (x.c % 2 != 0) break;
        ++kinds_["groupnorm"];
        return {Call("n", Cat("GroupNormalization(", x.name, ", ", Weights(Cat(x.c)), ", ",
                              Weights(Cat(x.c)), ") {num_groups=", x.c % 4 == 0 ? 4 : 2, "}")),
                x.c, x.h, x.w};
      case 11:
        if (x.h < 4) break;
        ++kinds_["pool"];
        return {Call("o", Cat(random_.Below(2) == 0 ? "MaxPool(" : "AveragePool(", x.name,
                              ") {kernel_shape=[2, 2], strides=[2, 2]}")),
                x.c, x.h / 2, x.w / 2};
      case 12: {
        if (x.h > 6) break;
        ++kinds_["resize"];
        if (random_.Below(2) == 0) {
          const std::string scales = Call("s", "const f32[4] {1, 1, 2, 2}");
          return {Call("z", Cat("Resize(", x.name, ", _, ", scales,
                                ") {coordinate_transformation_mode=\"asymmetric\", "
                                "nearest_mode=\"floor\"}")),
                  x.c, 2 * x.h, 2 * x.w};
        }
        return {Call("z", Cat("Resize(", x.name, ", _, _, ", Shape({1, x.c, 2 * x.h, 2 * x.w}),
                              ") {mode=\"linear\"}")),
                x.c, 2 * x.h, 2 * x.w};
      }
      case 13:
        if (x.c % 4 != 0 || x.h > 6) break;
        ++kinds_["depth_to_space"];
        return {Call("d", Cat("DepthToSpace(", x.name, ") {blocksize=2, mode=\"",
                              random_.Below(2) == 0 ? "DCR" : "CRD", "\"}")),
                x.c / 4, 2 * x.h, 2 * x.w};
      case 14:
        if (x.c > 6 || x.h < 4 || x.h % 2 != 0) break;
        ++kinds_["space_to_depth"];
        return {Call("d", Cat("SpaceToDepth(", x.name, ") {blocksize=2}")), 4 * x.c, x.h / 2,
                x.w / 2};
      case 15: {
        if (x.c % 2 != 0) break;
        ++kinds_["shuffle"];
        const std::string a =
            Call("t", Cat("Reshape(", x.name, ", ", Shape({1, 2, x.c / 2, x.h, x.w}), ")"));
        const std::string b = Call("t", Cat("Transpose(", a, ") {perm=[0, 2, 1, 3, 4]}"));
        return {Call("t", Cat("Reshape(", b, ", ", Shape({1, x.c, x.h, x.w}), ")")), x.c, x.h, x.w};
      }
      case 16: {
        if (x.h > 4) break;
        ++kinds_["conv_transpose"];
        const int64_t group = x.c % 2 == 0 ? Pick({1, 2}) : 1, out = Pick({4, 6});
        const std::string w = Weights(Cat(x.c, ",", out / group, ",2,2"));
        return {Act(Call("c", Cat("ConvTranspose(", x.name, ", ", w, ") {group=", group,
                                  ", strides=[2, 2]}"))),
                out, 2 * x.h, 2 * x.w};
      }
      case 17:
        ++kinds_["prelu"];
        return {Call("a", Cat("PRelu(", x.name, ", ", Weights(Cat(x.c, ",1,1")), ")")), x.c, x.h,
                x.w};
      case 18: {
        ++kinds_["scale"];
        const std::string y =
            Call("m", Cat("Mul(", x.name, ", ", Weights(Cat("1,", x.c, ",1,1")), ")"));
        return {Call("m", Cat("Add(", y, ", ", Weights("1"), ")")), x.c, x.h, x.w};
      }
      case 19: {
        ++kinds_["channels_last"];
        const std::string a = Call("t", Cat("Transpose(", x.name, ") {perm=[0, 2, 3, 1]}"));
        const int64_t out = Pick({4, 6, 8});
        std::string b = Call("m", Cat("MatMul(", a, ", ", Weights(Cat(x.c, ",", out)), ")"));
        b = Act(Call("m", Cat("Add(", b, ", ", Weights(Cat(out)), ")")));
        if (random_.Below(3) == 0) {
          ++kinds_["layernorm"];
          b = Call("n", Cat("LayerNormalization(", b, ", ", Weights(Cat(out)), ")"));
        }
        return {Call("t", Cat("Transpose(", b, ") {perm=[0, 3, 1, 2]}")), out, x.h, x.w};
      }
      case 20:
        ++kinds_["pad"];
        if (x.h > 6) break;
        return {Call("u", Cat("Pad(", x.name, ", ", Shape({0, 0, 1, 0, 0, 0, 0, 1}), ")")), x.c,
                x.h + 1, x.w + 1};
      case 21: {
        ++kinds_["dropout"];  // nobody reads its mask
        const std::string y = Fresh("d");
        text_ += Cat("  ", y, ", ", y, "_mask = Dropout(", x.name, ")\n");
        return {y, x.c, x.h, x.w};
      }
      case 22: {
        if (x.c % 2 != 0) break;
        ++kinds_["every_other"];  // a shuffle and its two halves, as simplification leaves them
        const Image a = {EveryOther(x, 0), x.c / 2, x.h, x.w};
        const Image b = ConvAct({EveryOther(x, 1), x.c / 2, x.h, x.w}, x.c / 2, 1);
        return {Call("k", Cat("Concat(", a.name, ", ", b.name, ") {axis=1}")), x.c, x.h, x.w};
      }
      default: {
        ++kinds_["same_weights"];  // read twice
        const std::string w = Weights(Cat(x.c, ",", x.c, ",1,1"));
        const std::string a = Act(Call("c", Cat("Conv(", x.name, ", ", w, ")")));
        return {Act(Call("c", Cat("Conv(", a, ", ", w, ")"))), x.c, x.h, x.w};
      }
    }
    return ConvAct(x, Pick({4, 8}), 1);
  }

  std::string Images() {
    text_.clear();
    Image x = ConvAct({"x", 3, 6, 6}, Pick({4, 8, 12}), 3);
    for (uint64_t n = 2 + random_.Below(6); n > 0; --n) x = Block(x);
    std::string f;
    int64_t width = x.c;
    if (random_.Below(2) == 0) {
      f = Call("f", Cat("GlobalAveragePool(", x.name, ")"));
      f = Call("f", Cat("Flatten(", f, ")"));
    } else {
      width = x.c * x.h * x.w;
      f = random_.Below(2) == 0 ? Call("f", Cat("Flatten(", x.name, ")"))
                                : Call("f", Cat("Reshape(", x.name, ", ", Shape({1, -1}), ")"));
    }
    const int64_t hidden = Pick({6, 8});
    f = Act(Call("h", Cat("Gemm(", f, ", ", Weights(Cat(hidden, ",", width)), ", ",
                          Weights(Cat(hidden)), ") {transB=1}")));
    Line("y", Cat("MatMul(", f, ", ", Weights(Cat(hidden, ",5")), ")"));
    return Cat("graph g(x: f32[1,3,6,6]) -> (y) {\n", text_, "}");
  }

  std::string Product(const std::string& x, int64_t in, int64_t out, bool bias) {
    const std::string y = Call("m", Cat("MatMul(", x, ", ", Weights(Cat(in, ",", out)), ")"));
    return bias ? Call("m", Cat("Add(", y, ", ", Weights(Cat(out)), ")")) : y;
  }

  /// [1, S, width] as [1, heads, S, width / heads].
  std::string Heads(const std::string& x, int64_t s, int64_t heads, int64_t size) {
    const std::string a = Call(
        "t", Cat("Reshape(", x, ", ", Shape({random_.Below(2) == 0 ? 0 : 1, s, heads, size}), ")"));
    return Call("t", Cat("Transpose(", a, ") {perm=[0, 2, 1, 3]}"));
  }

  struct HeadCounts {
    int64_t queries, keys, width;
  };

  /// In one of the spellings that take heads merged.
  std::string Attention(const std::string& q, const std::string& k, const std::string& v, int64_t s,
                        const HeadCounts& heads) {
    const std::string operands = Cat(q, ", ", k, ", ", v);
    switch (random_.Below(heads.queries == heads.keys ? 3 : 2)) {
      case 0:
        ++kinds_["attention"];
        return Call("o", Cat("Attention(", operands, ") {q_num_heads=", heads.queries,
                             ", kv_num_heads=", heads.keys, "}"));
      case 1: {
        ++kinds_["group_query"];
        const std::string last = Call("s", Cat("const i32[1] {", s - 1, "}"));
        const std::string total = Call("s", Cat("const i32[] {", s, "}"));
        return Call(
            "o", Cat("com.microsoft::GroupQueryAttention(", operands, ", _, _, ", last, ", ", total,
                     ") {num_heads=", heads.queries, ", kv_num_heads=", heads.keys, "}"));
      }
      default: {
        ++kinds_["multi_head"];
        const std::string bias =
            random_.Below(2) == 0 ? Cat(", ", Weights(Cat(3 * heads.width))) : "";
        return Call("o", Cat("com.microsoft::MultiHeadAttention(", operands, bias,
                             ") {num_heads=", heads.queries, "}"));
      }
    }
  }

  std::string AttentionBlock(const std::string& x, int64_t s, int64_t d) {
    const int64_t heads = Pick({2, 4}), size = Pick({2, 3}), kv = random_.Below(3) == 0 ? 2 : heads;
    const int64_t width = heads * size, narrow = kv * size;
    const bool bias = random_.Below(2) == 0;
    std::string o;
    if (random_.Below(3) == 0) {
      const std::string q = Product(x, d, width, bias), k = Product(x, d, narrow, bias),
                        v = Product(x, d, narrow, bias);
      o = Attention(q, k, v, s, {heads, kv, width});
    } else {
      std::string q, k, v;
      if (kv == heads && random_.Below(2) == 0) {
        ++kinds_["qkv"];
        const std::string all = Product(x, d, 3 * width, bias);
        if (random_.Below(2) == 0) {
          const std::string r =
              Call("t", Cat("Reshape(", all, ", ", Shape({1, s, 3, heads, size}), ")"));
          const std::string t = Call("t", Cat("Transpose(", r, ") {perm=[2, 0, 3, 1, 4]}"));
          for (std::string* part : {&q, &k, &v}) {
            const std::string at = Call("s", Cat("const i64[] {",
                                                 part == &q   ? 0
                                                 : part == &k ? 1
                                                              : 2,
                                                 "}"));
            *part = Call("t", Cat("Gather(", t, ", ", at, ")"));
          }
        } else {
          const std::string a = Fresh("p"), b = Fresh("p"), c = Fresh("p"),
                            sizes = Shape({width, width, width});
          text_ += Cat("  ", a, ", ", b, ", ", c, " = Split(", all, ", ", sizes, ") {axis=2}\n");
          q = Heads(a, s, heads, size);
          k = Heads(b, s, heads, size);
          v = Heads(c, s, heads, size);
        }
      } else {
        ++kinds_[kv == heads ? "heads" : "shared_heads"];
        q = Heads(Product(x, d, width, bias), s, heads, size);
        k = Heads(Product(x, d, narrow, bias), s, kv, size);
        v = Heads(Product(x, d, narrow, bias), s, kv, size);
        if (kv != heads)
          for (std::string* part : {&k, &v}) {
            *part = Call("t", Cat("Unsqueeze(", *part, ", ", Shape({2}), ")"));
            *part =
                Call("t", Cat("Expand(", *part, ", ", Shape({1, kv, heads / kv, s, size}), ")"));
            *part = Call("t", Cat("Reshape(", *part, ", ", Shape({1, heads, s, size}), ")"));
          }
      }
      k = Call("t", Cat("Transpose(", k, ") {perm=[0, 1, 3, 2]}"));
      std::string p = Call("m", Cat("MatMul(", q, ", ", k, ")"));
      p = Call("m", Cat("Softmax(", p, ")"));
      o = Call("m", Cat("MatMul(", p, ", ", v, ")"));
      o = Call("t", Cat("Transpose(", o, ") {perm=[0, 2, 1, 3]}"));
      o = Call("t", Cat("Reshape(", o, ", ", Shape({1, s, width}), ")"));
    }
    return Call("r", Cat("Add(", x, ", ", Product(o, width, d, bias), ")"));
  }

  std::string FeedForward(const std::string& x, int64_t d) {
    const int64_t f = Pick({6, 8, 12});
    std::string h;
    if (random_.Below(2) == 0) {
      ++kinds_["feed_forward"];
      h = Act(Product(x, d, f, true));
    } else {
      ++kinds_["gated"];
      h = Call("m", Cat("Mul(", Act(Product(x, d, f, false)), ", ", Product(x, d, f, false), ")"));
    }
    return Call("r", Cat("Add(", x, ", ", Product(h, f, d, true), ")"));
  }

  std::string Tokens() {
    text_.clear();
    const int64_t s = Pick({3, 4}), d = Pick({6, 8});
    std::string x = Product("x", 5, d, true);
    for (uint64_t n = 1 + random_.Below(3); n > 0; --n) {
      if (random_.Below(2) == 0)
        x = Call("n", Cat(random_.Below(2) == 0 ? "LayerNormalization(" : "RMSNormalization(", x,
                          ", ", Weights(Cat(d)), ")"));
      x = random_.Below(2) == 0 ? AttentionBlock(x, s, d) : FeedForward(x, d);
    }
    const std::string axes = Shape({1});
    x = Call("f", Cat("ReduceMean(", x, ", ", axes, ") {keepdims=0}"));
    Line("y", Cat("Gemm(", x, ", ", Weights(Cat(d, ",5")), ")"));
    return Cat("graph g(x: f32[1,", s, ",5]) -> (y) {\n", text_, "}");
  }

  Random random_;
  std::string text_;
  int next_ = 0;
  std::map<std::string, int> kinds_;
};

}  // namespace infer
