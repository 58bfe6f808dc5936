/// Attention of extents that only a run knows, planned for some that stand in for them.
#include <iterator>
#include <map>

#include "lib/support/strings.h"
#include "runtime/plan_ir/groups/attention_plan.h"

namespace infer {
namespace {

/// Operands as they could be, each symbol by a prime: what fits these fits nearly always.
class ImaginedExtents {
 public:
  Result<std::vector<Operand>> Operands(const StepCall& call, const std::vector<int>& ids) {
    std::vector<Operand> list;
    for (int id : ids) {
      const Value* v = call.plan.values[static_cast<size_t>(id)];
      if (!v->type().is_tensor() || !v->shape().has_rank()) return Unsupported("rank not known");
      Operand& o = list.emplace_back();
      o.value = v;
      o.dtype = v->dtype();
      o.constant = call.constant(v);
      for (const Dim& d : v->shape().dims()) {
        if (d.is_unknown()) return Unsupported("extents not known");
        o.dims.push_back(d.is_static() ? d.value() : ExtentOf(d));
      }
    }
    return list;
  }

 private:
  /// A sum of products of symbols and numbers keeps its relation to these.
  int64_t ExtentOf(const Dim& d) {
    const std::string text = d.ToString();
    if (text.find_first_of("()-/ ") != std::string::npos) return ExtentOf(text);
    int64_t sum = 0;
    for (const std::string& term : Split(text, '+')) {
      int64_t product = 1;
      for (const std::string& factor : Split(term, '*'))
        product *= ParseInt(factor) ? *ParseInt(factor) : ExtentOf(factor);
      sum += product;
    }
    return sum;
  }
  int64_t ExtentOf(const std::string& symbol) {
    static constexpr int64_t kPrimes[] = {3, 5, 7, 11, 13, 17, 19, 23};
    const int64_t next = kPrimes[extents_.size() % std::size(kPrimes)];
    return extents_.try_emplace(symbol, next).first->second;
  }
  std::map<std::string, int64_t> extents_;
};

}  // namespace

Result<AttentionPlan> PlanAttention(const AttentionGroup& group, const StepCall& call) {
  ImaginedExtents imagined;
  INFER_ASSIGN(const auto in, imagined.Operands(call, call.step.inputs));
  INFER_ASSIGN(const auto out, imagined.Operands(call, call.step.outputs));
  return PlanAttention(group, in, out);
}

}  // namespace infer
