/// Owners of the memory of sequences: a caller's input is not read, nor kept alive, behind the
/// end of its request, and an outcome holds nothing of it.
#include <gtest/gtest.h>

#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

constexpr const char* kOfSequence =
    "graph g(s: seq(f32[4])) -> (y: f32[4]) { i = const i64[] {0} e = SequenceAt(s, i) "
    "y = Add(e, e) }";
constexpr const char* kToSequence =
    "graph g(x: f32[4]) -> (s: seq(f32[4])) { s = SequenceConstruct(x, x) }";

using Memory = std::array<float, 4>;

Tensor BorrowedFrom(Memory& memory, std::shared_ptr<const void> owner = nullptr) {
  return Tensor(DType::kF32, {4}, Buffer::Borrow(memory.data(), sizeof memory, std::move(owner)));
}

TEST(OwnMemory, SequencesInAnOutcomeAreNoneOfTheCallers) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kToSequence)).ok());
  Memory memory = {1, 2, 3, 4};
  const Outcome o = engine->Infer({.model = "m", .inputs = {BorrowedFrom(memory)}});
  ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
  memory.fill(-1);
  ASSERT_EQ(o.outputs[0].sequence().size(), 2);
  for (const Datum& e : o.outputs[0].sequence()) {
    EXPECT_EQ(e.tensor().At(3), 4);
    EXPECT_FALSE(e.tensor().buffer()->borrowed());
  }
}

TEST(OwnMemory, OwnersOfElementsAreLetGo) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kOfSequence)).ok());
  const auto owner = std::make_shared<Memory>(Memory{1, 2, 3, 4});
  const Outcome o =
      engine->Infer({.model = "m", .inputs = {SequenceDatum{{BorrowedFrom(*owner, owner)}}}});
  ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
  EXPECT_EQ(FirstOf(o), 2);
  engine->Drain();
  EXPECT_EQ(owner.use_count(), 1) << "the instance lives and keeps its inputs bound";
}

TEST(OwnMemory, CopiesForAShadowAreTheirOwnAlsoInSequences) {
  std::atomic<bool> waits{false}, changed{false};
  Gate gate;
  const auto hook = [&](const std::vector<Datum>& inputs, const RunOptions& options) {
    if (waits) INFER_TRY(gate.hook()(inputs, options));
    changed = inputs[0].sequence()[0].tensor().At(0) != 1;
    return Status();
  };
  const auto engine = Made();
  Memory memory = {1, 2, 3, 4};
  const Datum warm = SequenceDatum{{Tensor::Of<float>({4}, {1, 2, 3, 4})}};
  ASSERT_TRUE(engine->Load("a", SourceOf(kOfSequence), {.warm_inputs = {warm}}).ok());
  ASSERT_TRUE(engine->Load("b", SourceOf(kOfSequence, hook), {.warm_inputs = {warm}}).ok());
  ASSERT_TRUE(engine->SetRoute("m", {ShadowRoute{}, {{.model = "a"}, {.model = "b"}}}).ok());
  waits = true;
  const Outcome o =
      engine->Infer({.model = "m", .inputs = {SequenceDatum{{BorrowedFrom(memory)}}}});
  EXPECT_EQ(o.end, State::kSucceeded);
  memory.fill(-1);  // the caller's again
  gate.Open();
  while (engine->StatsOfRoutes()[0].shadow->compared < 1)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  EXPECT_FALSE(changed);
}

TEST(OwnMemory, ACascadeLetsOwnersGoBeforeItTells) {
  const auto engine = Made();
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(engine->Load(name, SourceOf(kRowsModel), {.warm_inputs = {Filled(1)}}).ok());
  ASSERT_TRUE(engine->SetRoute("m", {CascadeRoute{}, {{.model = "a"}, {.model = "b"}}}).ok());
  const auto owner = std::make_shared<Memory>(Memory{1, 2, 3, 4});
  std::promise<long> owners;
  engine->Submit({.model = "m",
                  .inputs = {Tensor(DType::kF32, {1, 4},
                                    Buffer::Borrow(owner->data(), sizeof *owner, owner))}},
                 [&](const Outcome&) { owners.set_value(owner.use_count()); });
  EXPECT_EQ(owners.get_future().get(), 1);
}

}  // namespace
}  // namespace infer::engine
