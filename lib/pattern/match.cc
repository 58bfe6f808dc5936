#include "lib/pattern/match.h"

#include <algorithm>
#include <array>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {

const Match::Binding* Match::Find(const Pattern& p) const {
  for (const Binding& b : bound_)
    if (b.pattern == p.id()) return &b;
  return nullptr;
}
Value* Match::operator[](const Pattern& p) const {
  const Binding* b = Find(p);
  INFER_CHECK(b && "pattern not bound");
  return b->value;
}
bool Match::Has(const Pattern& p) const {
  const Binding* b = Find(p);
  return b && b->value;
}
size_t Match::choice(const Pattern& p) const {
  const Binding* b = Find(p);
  INFER_CHECK(b && "pattern not bound");
  return b->choice;
}

std::string Mismatch::ToString() const {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (const Node* n : nodes) {
    if (names.size() == kShown) {
      names.push_back("...");
      break;
    }
    names.push_back(n->name().empty() ? Cat(n->op(), " '", n->output(0)->name(), "'") : n->name());
  }
  return Cat("matched ", matched, " of ", of, " nodes",
             names.empty() ? "" : Cat(" (", Join(names, ", "), ")"), ": ", text);
}

namespace {

/// `ops` empty: any operator.
bool IsOneOf(const Node* n, const std::vector<Pattern::OpName>& ops) {
  return n && (ops.empty() || std::any_of(ops.begin(), ops.end(), [&](const Pattern::OpName& op) {
                 return n->Is(op.name, op.domain);
               }));
}

}  // namespace

/// Depth-first search over a list of goals (pattern, value), kept as a linked list of stack frames;
/// the length of the bindings is the backtracking point.
class Matcher {
 public:
  /// `explain`: Why() will be asked, and names the nodes that fitted.
  Matcher(std::span<const Pattern> roots, std::span<Value* const> values, bool explain)
      : roots_(roots), values_(values), explain_(explain) {}

  bool Run() {
    const Goal goal{&roots_[0], values_[0], nullptr};
    return Solve(&goal);
  }
  Match& match() { return m_; }
  Mismatch Why() const;

 private:
  struct Goal {
    const Pattern* pattern;
    Value* value;
    const Goal* next;
  };
  enum class Cause : uint8_t {
    kNone,
    kOther,
    kOtherNode,
    kOmitted,
    kNotConstant,
    kCondition,
    kWrongOp,
    kInputs,
    kUses,
    kNoSibling,
    kSteps
  };
  // A search that long means a pattern that is ambiguous beyond reason.
  static constexpr int kMaxSteps = 20000;
  static constexpr size_t kMaxCandidates = 64;

  bool Solve(const Goal* goals);
  bool SolveOp(const Goal* goals, const Pattern::Data& d, Value* v);
  bool SolveOperands(const Goal* goals, const Pattern::Data& d, const Node& n, bool swap);
  bool NextRoot();
  bool Finish();
  bool Bind(const Pattern::Data& d, Value* v, size_t choice, const Goal* goals);
  bool Fail(Cause cause, const Pattern::Data* expected, const Value* v, size_t detail = 0);
  const Match::Binding* FindBound(const Pattern::Data* d) const {
    for (const auto& b : m_.bound_)
      if (b.pattern == d) return &b;
    return nullptr;
  }
  /// The node that makes another result of what `d` is a result of; nullptr when none is bound.
  const Node* SameNode(const Pattern::Data& d) const {
    if (!d.same_node) return nullptr;
    for (const auto& b : m_.bound_)
      if (b.pattern->same_node == d.same_node) return b.value->producer();
    return nullptr;
  }
  /// Where patterns may lie, seen from what is bound.
  struct Reached {
    std::unordered_map<const Pattern::Data*, std::vector<Value*>> values;
    Value* anchor = nullptr;  ///< the first bound value that was met
  };
  const std::vector<Value*>& Above(const Pattern& p, Reached& reached) const;

  std::span<const Pattern> roots_;
  std::span<Value* const> values_;  ///< of the first roots
  const bool explain_;
  size_t roots_done_ = 1;
  Match m_;
  int ops_bound_ = 0, steps_ = 0;

  /// Of failures at one depth a condition that does not hold is told before a value that is
  /// something else, which the wrong one of two operands always is: so the order of a model's
  /// operands does not matter. Else the first: operands in written order come first.
  bool IsToldBefore(Cause cause) const;
  bool IsOther(const Use& u) const;
  std::string OtherUses() const;

  Cause cause_ = Cause::kNone;
  int depth_ = -1;
  const Pattern::Data* expected_ = nullptr;
  const Value* at_ = nullptr;
  size_t detail_ = 0;
  std::vector<const Node*> fitted_;
  std::vector<std::string> others_;  ///< who else reads the value of a kUses
};

bool Matcher::IsToldBefore(Cause cause) const {
  const auto other = [](Cause c) {
    return c == Cause::kWrongOp || c == Cause::kNotConstant || c == Cause::kOther ||
           c == Cause::kOmitted;
  };
  return other(cause_) && !other(cause);
}

bool Matcher::IsOther(const Use& u) const {
  return std::none_of(m_.bound_.begin(), m_.bound_.end(), [&](const auto& b) {
    return b.pattern->kind == Pattern::Kind::kOp && b.value->producer() == u.user;
  });
}

bool Matcher::Fail(Cause cause, const Pattern::Data* expected, const Value* v, size_t detail) {
  if (ops_bound_ > depth_ || (explain_ && ops_bound_ == depth_ && IsToldBefore(cause))) {
    depth_ = ops_bound_;
    cause_ = cause;
    expected_ = expected;
    at_ = v;
    detail_ = detail;
    if (explain_) {
      fitted_.clear();
      others_.clear();
      if (cause == Cause::kUses)
        for (const Use& u : v->uses())
          if (IsOther(u))
            others_.push_back(Cat(u.user->op(), " '",
                                  u.user->output(0) ? u.user->output(0)->name() : u.user->name(),
                                  "'"));
      if (cause == Cause::kUses && v->is_output()) others_.push_back("a graph output");
      for (const auto& b : m_.bound_) {
        if (b.pattern->kind != Pattern::Kind::kOp) continue;
        const Node* n = b.value->producer();
        if (std::find(fitted_.begin(), fitted_.end(), n) == fitted_.end()) fitted_.push_back(n);
      }
    }
  }
  return false;
}

bool Matcher::Bind(const Pattern::Data& d, Value* v, size_t choice, const Goal* goals) {
  const size_t mark = m_.bound_.size();
  m_.bound_.push_back({&d, v, choice});
  if (Solve(goals)) return true;
  m_.bound_.resize(mark);
  return false;
}

bool Matcher::Solve(const Goal* goals) {
  if (!goals) return NextRoot();
  const Pattern::Data& d = **goals->pattern;
  Value* v = goals->value;
  if (++steps_ > kMaxSteps) return Fail(Cause::kSteps, &d, v);
  if (const auto* b = FindBound(&d))
    return b->value == v ? Solve(goals->next) : Fail(Cause::kOther, &d, v);
  if (!v) return d.or_omitted ? Bind(d, v, 0, goals->next) : Fail(Cause::kOmitted, &d, v);
  if (d.kind == Pattern::Kind::kConstant && !v->is_constant())
    return Fail(Cause::kNotConstant, &d, v);
  if (d.kind == Pattern::Kind::kOp) return SolveOp(goals, d, v);
  for (size_t i = 0; i < d.where.size(); ++i)
    if (!d.where[i].holds(*v)) return Fail(Cause::kCondition, &d, v, i);
  if (d.kind != Pattern::Kind::kOneOf) return Bind(d, v, 0, goals->next);
  // What cannot fit is passed over in silence where something else may: "not a Cast" is no answer
  // where a Cast may stand.
  const auto may_fit = [&](const Pattern& p) {
    return p->kind != Pattern::Kind::kOp || IsOneOf(v->producer(), p->ops);
  };
  const bool any = std::any_of(d.operands.begin(), d.operands.end(), may_fit);
  if (!any) return Fail(Cause::kWrongOp, &d, v);
  for (size_t i = 0; i < d.operands.size(); ++i) {
    const Goal next{&d.operands[i], v, goals->next};
    if (!may_fit(d.operands[i])) continue;
    if (Bind(d, v, i, &next)) return true;
  }
  return false;
}

bool Matcher::SolveOp(const Goal* goals, const Pattern::Data& d, Value* v) {
  const Node* n = v->producer();
  if (!IsOneOf(n, d.ops) || v->producer_index() != d.output) return Fail(Cause::kWrongOp, &d, v);
  if (const Node* same = SameNode(d); same && same != n) return Fail(Cause::kOtherNode, &d, v);
  for (size_t i = 0; i < d.where.size(); ++i)
    if (!d.where[i].holds(*v)) return Fail(Cause::kCondition, &d, v, i);
  const size_t mark = m_.bound_.size();
  m_.bound_.push_back({&d, v, 0});
  ++ops_bound_;
  if (SolveOperands(goals, d, *n, false)) return true;
  const bool can_swap = n->def().commutative && !d.ordered && d.operands.size() == 2 &&
                        n->inputs().size() == 2 && d.operands[0].id() != d.operands[1].id();
  if (can_swap && SolveOperands(goals, d, *n, true)) return true;
  m_.bound_.resize(mark);
  --ops_bound_;
  return false;
}

bool Matcher::SolveOperands(const Goal* goals, const Pattern::Data& d, const Node& n, bool swap) {
  const size_t count = d.operands.size();
  for (size_t i = count; i < n.inputs().size(); ++i)
    if (n.inputs()[i] && !d.more_inputs)
      return Fail(Cause::kInputs, &d, n.output(d.output), n.inputs().size());
  std::array<Goal, 6> few;
  std::vector<Goal> many(count > few.size() ? count : 0);
  Goal* const chain = many.empty() ? few.data() : many.data();
  for (size_t i = count; i-- > 0;)
    chain[i] = {&d.operands[i], n.input(swap && i < 2 ? 1 - i : i),
                i + 1 < count ? &chain[i + 1] : goals->next};
  return Solve(count ? chain : goals->next);
}

/// Where the value of `p` may be, upwards from parts of it that are bound. Of several operands one
/// is enough: what fits the whole is above each of them.
const std::vector<Value*>& Matcher::Above(const Pattern& p, Reached& reached) const {
  const auto [it, is_new] = reached.values.try_emplace(p.id());
  std::vector<Value*>& found = it->second;
  if (!is_new) return found;
  const auto add = [&found](Value* v) {
    if (v && found.size() < kMaxCandidates &&
        std::find(found.begin(), found.end(), v) == found.end())
      found.push_back(v);
  };
  if (const auto* b = FindBound(p.id()); b && b->value) {
    if (!reached.anchor) reached.anchor = b->value;
    found.push_back(b->value);
    return found;
  }
  const bool is_op = p->kind == Pattern::Kind::kOp;
  for (const Pattern& o : p->operands) {
    if (is_op && !found.empty()) break;
    for (Value* v : Above(o, reached)) {
      if (!is_op) add(v);
      if (is_op)
        for (const Use& use : v->uses())
          if (IsOneOf(use.user, p->ops)) add(use.user->output(p->output));
    }
  }
  return found;
}

bool Matcher::NextRoot() {
  if (roots_done_ == roots_.size()) return Finish();
  const Pattern& p = roots_[roots_done_];
  Value* anchor = nullptr;
  std::vector<Value*> level;
  if (roots_done_ < values_.size()) {
    anchor = values_[roots_done_];
    level = {anchor};
  } else if (const Node* same = SameNode(*p)) {
    anchor = m_.root();
    if (Value* result = same->output(p->output)) level = {result};
  } else {
    Reached reached;
    level = Above(p, reached);
    anchor = reached.anchor;
    INFER_CHECK(anchor && "a further root shares nothing with the first");
  }
  std::sort(level.begin(), level.end(),
            [](Value* a, Value* b) { return Graph::Before(*a->producer(), *b->producer()); });
  ++roots_done_;
  for (Value* candidate : level) {
    const bool taken = std::any_of(m_.bound_.begin(), m_.bound_.end(), [&](const auto& b) {
      return b.value == candidate && b.pattern->kind == Pattern::Kind::kOp;
    });
    const Goal goal{&p, candidate, nullptr};
    if (!taken && Solve(&goal)) return true;
  }
  --roots_done_;
  return Fail(Cause::kNoSibling, p.id(), anchor);
}

/// All that is bound disappears but what is shared: nothing outside may read it.
bool Matcher::Finish() {
  std::vector<Node*>& nodes = m_.nodes_;
  nodes.clear();
  size_t operands = 0;
  for (const auto& b : m_.bound_)
    if (b.pattern->kind == Pattern::Kind::kOp) {
      Node* n = b.value->producer();
      if (std::find(nodes.begin(), nodes.end(), n) != nodes.end()) continue;
      nodes.push_back(n);
      operands += n->inputs().size();
    }
  const auto inside = [&](const Use& u) {
    return std::find(nodes.begin(), nodes.end(), u.user) != nodes.end();
  };
  const auto bound = [&](const Value* v) {
    return std::any_of(m_.bound_.begin(), m_.bound_.end(), [&](const auto& b) {
      return b.value == v && b.pattern->kind == Pattern::Kind::kOp;
    });
  };
  // The first root is an inner value where a pattern that took part has it as an operand.
  const bool begins_inside = std::any_of(m_.bound_.begin(), m_.bound_.end(), [&](const auto& b) {
    const auto& parts = b.pattern->operands;
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Pattern& p) { return p.id() == roots_[0].id(); });
  });
  const auto is_root = [&](const Pattern::Data* d, const Value* v) {
    if (v == m_.bound_.front().value) return !begins_inside;  // also through a OneOf
    return std::any_of(roots_.begin() + 1, roots_.end(), [&](const Pattern& r) {
      return r.id() == d || (begins_inside && FindBound(r.id())->value == v);
    });
  };
  for (const auto& b : m_.bound_) {
    if (b.pattern->kind != Pattern::Kind::kOp || b.pattern->shared) continue;
    for (const Value* other : b.value->producer()->outputs())
      if (other && other != b.value && !other->is_dead() && !bound(other))
        return Fail(Cause::kUses, b.pattern, other);
    if (is_root(b.pattern, b.value)) continue;
    const auto& uses = b.value->uses();
    if (b.value->is_output() || uses.size() > operands ||
        !std::all_of(uses.begin(), uses.end(), inside))
      return Fail(Cause::kUses, b.pattern, b.value);
  }
  return true;
}

/// ": Shape 'v12', a graph output", without the pattern's own nodes.
std::string Matcher::OtherUses() const {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown(
      others_.begin(),
      others_.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, others_.size())));
  if (others_.size() > kShown) shown.emplace_back("...");
  return shown.empty() ? "" : Cat(": ", Join(shown, ", "));
}

Mismatch Matcher::Why() const {
  Mismatch why;
  why.matched = std::max(depth_, 0);
  why.nodes = fitted_;
  for (const Pattern& r : roots_) why.of += CountOps(r);
  why.of = std::max(why.of, why.matched);  // of a larger alternative
  const auto name = [&] { return Cat("'", at_ ? at_->name() : std::string("?"), "'"); };
  const auto ops = [&] {
    std::vector<std::string> names;
    for (const auto& op : RootOps(*expected_)) names.push_back(op.name);
    return names.empty() ? "n operator" : Cat(" ", Join(names, " or "));
  };
  const auto what = [&] {
    if (at_->producer()) return std::string(at_->producer()->op());
    return std::string(at_->is_constant() ? "constant" : "graph input");
  };
  switch (cause_) {
    case Cause::kNone: break;
    case Cause::kOther: why.text = Cat(name(), " is not the value bound before"); break;
    case Cause::kOtherNode: why.text = Cat(name(), " is a result of another node"); break;
    case Cause::kOmitted: why.text = "an operand is omitted"; break;
    case Cause::kNotConstant: why.text = Cat(name(), " is not a constant"); break;
    case Cause::kCondition:
      why.text = Cat(name(), " is not ", expected_->where[detail_].text);
      if (const Tensor* t = at_->constant(); t && t->num_elements() == 1 && IsFloat(t->dtype()))
        why.text += Cat(", it is ", Rounded(t->At(0), 6));
      break;
    case Cause::kWrongOp: why.text = Cat(name(), " is a ", what(), ", not a", ops()); break;
    case Cause::kInputs:
      why.text = Cat(name(), " is made from ", detail_, " operands, the pattern has ",
                     expected_->operands.size());
      break;
    case Cause::kUses: why.text = Cat(name(), " has other uses", OtherUses()); break;
    case Cause::kNoSibling: why.text = Cat("no further use of ", name(), " fits"); break;
    case Cause::kSteps: why.text = "the search is too ambiguous"; break;
  }
  return why;
}

std::optional<Match> FindMatch(std::span<const Pattern> roots, std::span<Value* const> values,
                               Mismatch* why) {
  Matcher matcher(roots, values, why != nullptr);
  if (matcher.Run()) return std::move(matcher.match());
  if (why) *why = matcher.Why();
  return std::nullopt;
}

std::optional<Match> FindMatch(std::span<const Pattern> roots, Value* root, Mismatch* why) {
  return FindMatch(roots, std::span<Value* const>(&root, 1), why);
}

}  // namespace infer
