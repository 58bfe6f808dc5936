#pragma once
/// Buffers and copies of a ShapePlan while it is built: where each value lies, in which layouts and
/// memory spaces, and which launches bring it there. Not thread-safe; belongs to one
/// BuildShapePlan.
#include "runtime/plan_ir/plan_reuse.h"

namespace infer {

/// The first of these buffers that is as large; -1: none.
int FirstOfSize(const ShapePlan& shapes, const std::vector<int>& buffers, int64_t bytes);

class PlanBuffers {
 public:
  /// Where a value lies: one buffer per layout in which somebody wants it.
  struct Place {
    std::vector<std::pair<Layout, int>> versions;
    int readers = 0;  ///< steps that still will read it, and the graph's outputs
  };
  using Kind = PlannedBuffer::Kind;

  /// All arguments outlive it; `out` gets the buffers and the code of launches, and has its facts;
  /// `frame` gets the launches; `notes` is told how they came about.
  PlanBuffers(const Plan& plan, const PlanBackends& backends, const ShapePlanHooks& hooks,
              ShapePlan& out, PlanFrame& frame, PlanNotes& notes)
      : plan_(plan),
        backends_(backends),
        hooks_(hooks),
        out_(out),
        frame_(frame),
        notes_(notes),
        places_(plan.values.size()) {}

  Place& place(int id) { return places_[static_cast<size_t>(id)]; }
  const Place& place(int id) const { return places_[static_cast<size_t>(id)]; }
  int64_t BytesOf(int id) const;  ///< row-major
  /// Launches that follow run on the calling thread only.
  void set_alone(bool alone) { alone_ = alone; }
  /// Copies that follow are for outputs of the graph.
  void BeginOutputs() { is_last_ = true; }
  /// Launches of kernels that follow are for this part of their step; -1: for all of it.
  void set_part(int part) { part_ = part; }

  /// Buffers for inputs and for what is constant or known. Pre: readers are counted.
  void AddSources();
  /// A buffer for value `owner` (-1: scratch).
  int NewBuffer(Kind kind, int64_t bytes, int owner, const Layout& layout = {});
  void Append(PlannedLaunch launch, std::shared_ptr<const Launch> code = nullptr);
  /// A launch of kernel `p` for `step`, which is step s or a part of it, with the copies that its
  /// layouts want.
  Status AddKernel(size_t s, const PlanStep& step, const Prepared& p, size_t backend);
  /// A copy of value `id` between two buffers of one layout.
  Status AddCopy(size_t s, int id, const Layout& layout, int from, int to);
  /// Arguments of a launch on reference kernels: `inputs` as plain buffers, then `outputs`, which
  /// get plain buffers where they can be planned; -1: a slot.
  Status AddPlainArguments(size_t s, const std::vector<int>& inputs,
                           const std::vector<int>& outputs, PlannedLaunch& launch);

  /// The operands as a kernel finds them that works in `space`.
  std::vector<Operand> Operands(const std::vector<int>& ids, MemorySpace space) const;
  /// How each of them lies first, now.
  std::vector<Layout> LayoutsOf(const std::vector<int>& ids) const;
  /// The buffer that holds value `id` in `layout`; a copy is launched where there is none.
  Result<int> Version(size_t s, int id, const Layout& layout);

  /// One reader of value `id` less; behind the last one its memory may be used again.
  void Release(int id);
  /// Tells where constant `id` will not be read any more, and never was by a launch.
  void LetGo(int id);
  /// Constants that some launch reads go into their buffers; plain buffers are listed.
  Status Finish();
  /// PlanNotes::buffers, once all are there.
  void NoteBuffers();

 private:
  Result<int> Crossed(size_t s, int id, const Layout& layout);
  void Push(size_t s, const Prepared& p, std::vector<int> args, size_t backend,
            bool is_copy = false);
  /// A copy of value `id` by `p`.
  void PushCopy(size_t s, int id, const Layout& from, const Layout& to, const Prepared& p,
                std::vector<int> args);
  bool Dying(const PlanStep& step, int b) const;
  /// Operands' buffers that result 0 may take over if they are as large.
  std::vector<int> MayTake(const PlanStep& step, const Prepared& p,
                           const std::vector<int>& args) const;
  size_t BackendIn(MemorySpace space) const;

  const Plan& plan_;
  const PlanBackends& backends_;
  const ShapePlanHooks& hooks_;
  ShapePlan& out_;
  PlanFrame& frame_;
  PlanNotes& notes_;
  std::vector<Place> places_;             // by value id
  std::vector<std::vector<int>> owners_;  // by buffer: values in it that somebody still will read
  std::vector<bool> used_;                // by buffer: by a launch, or another value lies in it
  bool alone_ = false, is_last_ = false;
  int part_ = -1;
};

}  // namespace infer
