/// Masks that are computed instead of chosen, as GPT-2 has them: scores * b - 1e4 * (1 - b).
#include <cmath>

#include "passes/blocks/attention_mask.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Every element is 0 or 1: truth values as numbers, constants of them, and parts of those.
bool IsZeroOrOne(const Value& value) {
  const Value* v = &value;
  while (const Node* n = v->producer()) {
    if (n->Is(Trait::kConversion) && n->input(0)->dtype() == DType::kBool) return true;
    if (!n->IsAny(Trait::kView | Trait::kStrided | Trait::kConversion) ||
        n->Is(Trait::kQuantization))
      return false;
    v = n->input(0);
  }
  if (!v->is_constant() || !IsFloat(value.dtype())) return false;
  const Tensor& t = *v->constant();
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (t.At(i) != 0 && t.At(i) != 1) return false;
  return true;
}

/// The number that (1 - b) is multiplied by in the constant `t`; 0: it is no such thing.
double FactorOf(const Tensor& t, const Tensor& b) {
  if (t.dims() != b.dims() || t.num_elements() == 0) return 0;
  double factor = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (b.At(i) == 0) factor = t.At(i);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (t.At(i) != (b.At(i) == 0 ? factor : 0)) return 0;
  return factor;
}

}  // namespace

Rule ChooseByMask() {
  Pattern w = Any(), c = Scalar(), known = Constant();
  Pattern b = Any().Where("of zeros and ones", IsZeroOrOne);
  Pattern product = Op("Mul", w, b);
  Pattern hidden = Op("Mul", Op("Sub", Number(1), b), c);
  Pattern less = Op("Sub", product, hidden), more = Op("Add", product, hidden);
  Pattern less_known = Op("Sub", product, known), more_known = Op("Add", product, known);
  // tf2onnx' form of a choice: both conditions as numbers.
  Pattern condition = Any().Where("truth values", [](const Value& v) {
    return v.type().is_tensor() && v.dtype() == DType::kBool;
  });
  Pattern kept = Op("Mul", w, Op("Cast", condition).Shared());
  Pattern hidden_not = Op("Mul", Op("Cast", Op("Not", condition).Shared()).Shared(), c).Shared();
  Pattern more_not = Op("Add", kept, hidden_not);
  const char* begin = R"(graph g(w: f32[N,2,2,2]) -> (y) { u = const f32[1,1,2,3] {1,0,0,1,1,0}
    o = const i64[1] {0}  e = const i64[1] {2}  a = const i64[1] {3}  one = const f32[] {1}
    k = const f32[] {10000}  l = const f32[] {-10000}  i = const f32[1,1,2,3] {1,0,0,0.5,1,0}
    b = Slice(u, o, e, a) )";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "choose-by-mask",
      .doc = "w * b - 1e4 * (1 - b) => Where(b, w, -1e4), b of zeros and ones or of truth values",
      .match = OneOf({less, more, less_known, more_known, more_not}),
      .build = [=](const Match& m, PatchBuilder& p) -> Result<Value*> {
        double low = 0;
        if (m.Has(less) || m.Has(more) || m.Has(more_not)) {
          low = m.scalar(c);
        } else {
          if (!m[b]->is_constant()) return InvalidModel("needs a mask that is constant, too");
          low = FactorOf(m.tensor(known), m.tensor(b));
        }
        if (m.Has(less) || m.Has(less_known)) low = -low;
        if (!(low <= kHidden) || !std::isfinite(low))
          return InvalidModel("needs a number that hides a score");
        Value* keep = m.Has(more_not) ? m[condition] : nullptr;
        if (!keep) {
          INFER_ASSIGN(keep, p("Cast", {m[b]}, {{"to", static_cast<int64_t>(DType::kBool)}}));
        }
        return p("Where", {keep, m[w], p.Const(FromDoubles(m[w]->dtype(), {}, {low}))});
      },
      .fires_on = {text("p = Mul(w, b) n = Sub(one, b) h = Mul(n, k) y = Sub(p, h)"),
                   text("p = Mul(w, b) n = Sub(one, b) h = Mul(l, n) y = Add(p, h)"),
                   R"(graph g(w: f32[N,2,2,2], q: bool[2,2]) -> (y) { one = const f32[] {1}
                     k = const f32[] {1e9}  b = Cast(q) {to=1}  p = Mul(w, b)  n = Sub(one, b)
                     h = Mul(n, k)  y = Sub(p, h) })",
                   R"(graph g(w: f32[N,2,2,2]) -> (y) { b = const f32[1,1,2,2] {1,0,1,1}
                     h = const f32[1,1,2,2] {0,10000,0,0}  p = Mul(w, b)  y = Sub(p, h) })",
                   R"(graph g(w: f32[N,2,2,2]) -> (y) { b = const f32[1,1,2,2] {1,0,1,1}
                     h = const f32[1,1,2,2] {0,-10000,0,0}  p = Mul(w, b)  y = Add(p, h) })",
                   R"(graph g(w: f32[N,2,2,2], q: bool[2,2]) -> (y, h) { k = const f32[] {-1e9}
                     n = Not(q)  b = Cast(q) {to=1}  d = Cast(n) {to=1}  h = Mul(k, d)
                     p = Mul(b, w)  y = Add(p, h) })"},
      .silent_on =
          {{text("p = Mul(w, b) n = Sub(one, b) h = Mul(n, l) y = Sub(p, h)"),
            "a number that hides a score"},
           {text("j = Slice(i, o, e, a) p = Mul(w, j) n = Sub(one, j) h = Mul(n, k) y = Sub(p, h)"),
            "of zeros and ones"},
           {text("z = const f32[1,1,2,2] {1,0,1,1} p = Mul(w, b) n = Sub(one, z) h = Mul(n, k) y = "
                 "Sub(p, h)"),
            "is not the value bound before"},
           {R"(graph g(w: f32[N,2,2,2], q: bool[2,2], r: bool[2,2]) -> (y) { n = Not(r)
              k = const f32[] {-1e9}  b = Cast(q) {to=1}  d = Cast(n) {to=1}  h = Mul(k, d)
              p = Mul(b, w)  y = Add(p, h) })",
            "is not the value bound before"},
           {R"(graph g(w: f32[N,2,2,2]) -> (y) { b = const f32[1,1,2,2] {1,0,1,1}
              h = const f32[1,1,2,2] {0,10000,1,0}  p = Mul(w, b)  y = Sub(p, h) })",
            "a number that hides a score"},
           {text("h = const f32[1,1,2,2] {0,10000,0,0} p = Mul(w, b) y = Sub(p, h)"),
            "a mask that is constant, too"}},
  };
}

}  // namespace infer
