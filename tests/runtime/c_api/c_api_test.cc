/// libinfer.so through its header, linked as any program would link it.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/runtime/c_api/digits.h"

namespace c_api_test {
namespace {

using testing::HasSubstr;

TEST(CApi, TellsWhatAModelTakes) {
  const Model model(Digits());
  ASSERT_EQ(infer_model_inputs(model.m), 1U);
  ASSERT_EQ(infer_model_outputs(model.m), 1U);
  infer_value in{};
  ASSERT_EQ(infer_model_input(model.m, 0, &in), INFER_OK);
  EXPECT_EQ(in.dtype, INFER_F32);
  ASSERT_EQ(in.rank, 4);
  EXPECT_EQ(in.dims[0], -1);
  EXPECT_STRNE(in.symbols[0], "");
  EXPECT_EQ(in.dims[3], 32);
  EXPECT_STREQ(in.symbols[3], "");
  EXPECT_EQ(infer_model_input(model.m, 1, &in), INFER_INVALID_ARGUMENT);
  EXPECT_THAT(infer_last_error(), HasSubstr("number 1 of 1"));
}

TEST(CApi, FusedAndSavedItComputesTheSame) {
  Model model(Digits());
  const Image image;
  const std::vector<float> before = RunSession(Session(model).s, image.tensor());
  ASSERT_EQ(before.size(), 10U);
  const size_t nodes = infer_model_nodes(model.m);
  ASSERT_EQ(infer_model_fuse(model.m, 3), INFER_OK) << infer_last_error();
  EXPECT_LT(infer_model_nodes(model.m), nodes);
  const auto path =
      std::filesystem::temp_directory_path() / ("c_api_" + std::to_string(getpid()) + ".onnx");
  ASSERT_EQ(infer_model_save(model.m, path.c_str()), INFER_OK) << infer_last_error();
  const std::vector<float> after = RunSession(Session(Model(path.c_str())).s, image.tensor());
  std::filesystem::remove(path);
  EXPECT_THAT(after, testing::Pointwise(testing::FloatNear(1e-4F), before));
  EXPECT_EQ(infer_model_fuse(model.m, 9), INFER_INVALID_ARGUMENT);
}

TEST(CApi, ReferenceAgrees) {
  const Model model(Digits());
  const Image image;
  infer_session_options o{};
  o.device = "reference";
  EXPECT_THAT(
      RunSession(Session(model, o).s, image.tensor()),
      testing::Pointwise(testing::FloatNear(1e-3F), RunSession(Session(model).s, image.tensor())));
}

TEST(CApi, RunsFromManyThreads) {
  const Model model(Digits());
  infer_session_options o{};
  o.threads = 1;
  o.instances = 2;
  const Session session(model, o);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Image image(static_cast<float>(t + 1));
      const std::vector<float> want = RunSession(Session(model).s, image.tensor());
      for (int i = 0; i < 20; ++i)
        EXPECT_THAT(RunSession(session.s, image.tensor()),
                    testing::Pointwise(testing::FloatNear(1e-4F), want));
    });
  for (std::thread& t : threads) t.join();
}

/// The ends that callbacks told.
struct Told {
  static void Tell(void* user, infer_code code, const char* error, infer_result* result) {
    auto& told = *static_cast<Told*>(user);
    const std::lock_guard lock(told.mutex);
    told.codes.push_back(code);
    told.errors.emplace_back(error);
    if (result) told.values = Floats(result);
    infer_result_free(result);
    told.changed.notify_all();
  }
  void WaitFor(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return codes.size() >= count; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<infer_code> codes;
  std::vector<std::string> errors;
  std::vector<float> values;
};

TEST(CApi, SubmitsAlsoInBatches) {
  const Model model(Digits());
  const Image image;
  const std::vector<float> want = RunSession(Session(model).s, image.tensor());
  infer_session_options o{};
  o.max_batch = 4;
  o.max_delay_us = 1000;
  const Session session(model, o);
  Told told;
  const infer_tensor input = image.tensor();
  for (int i = 0; i < 8; ++i)
    ASSERT_EQ(infer_session_submit(session.s, &input, 1, -1, Told::Tell, &told), INFER_OK);
  told.WaitFor(8);
  EXPECT_THAT(told.codes, testing::Each(INFER_OK));
  EXPECT_THAT(told.values, testing::Pointwise(testing::FloatNear(1e-4F), want));
}

TEST(CApi, LateRequestsAndWrongInputsAreTold) {
  const Model model(Digits());
  const Session session(model);
  Told told;
  const Image image;
  infer_tensor input = image.tensor();
  ASSERT_EQ(infer_session_submit(session.s, &input, 1, 0, Told::Tell, &told), INFER_OK);
  told.WaitFor(1);
  EXPECT_EQ(told.codes[0], INFER_CANCELLED);
  ASSERT_EQ(infer_session_submit(session.s, nullptr, 0, -1, Told::Tell, &told), INFER_OK);
  told.WaitFor(2);
  EXPECT_EQ(told.codes[1], INFER_INVALID_ARGUMENT);
  EXPECT_NE(told.errors[1], "");

  infer_result* result = nullptr;
  input.bytes = 4;
  EXPECT_EQ(infer_session_run(session.s, &input, 1, &result), INFER_INVALID_ARGUMENT);
  EXPECT_THAT(infer_last_error(), HasSubstr("has 4096 bytes, not 4"));
  input = image.tensor();
  input.dtype = 99;
  EXPECT_EQ(infer_session_run(session.s, &input, 1, &result), INFER_INVALID_ARGUMENT);
  input.dtype = INFER_I32;
  EXPECT_EQ(infer_session_run(session.s, &input, 1, &result), INFER_INVALID_ARGUMENT);
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40, 1, -1};
  input = image.tensor();
  input.dims = huge;
  EXPECT_EQ(infer_session_run(session.s, &input, 1, &result), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(result, nullptr);
}

/// Memory of a caller need not be aligned as kernels want it.
TEST(CApi, TakesUnalignedMemory) {
  const Model model(Digits());
  const Session session(model);
  const Image image;
  std::vector<unsigned char> bytes(image.pixels.size() * sizeof(float) + 1);
  std::memcpy(bytes.data() + 1, image.pixels.data(), bytes.size() - 1);
  infer_tensor input = image.tensor();
  input.data = bytes.data() + 1;
  EXPECT_EQ(RunSession(session.s, input), RunSession(session.s, image.tensor()));
}

TEST(CApi, RefusesWithACodeAndAText) {
  infer_model* model = nullptr;
  EXPECT_EQ(infer_model_load("/no/such/file.onnx", &model), INFER_IO);
  EXPECT_THAT(infer_last_error(), HasSubstr("/no/such/file.onnx"));
  EXPECT_EQ(infer_model_load_bytes("nonsense", 8, &model), INFER_INVALID_MODEL);
  EXPECT_EQ(infer_model_load(nullptr, &model), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(model, nullptr);
  const Model digits(Digits());
  infer_session* session = nullptr;
  infer_session_options o{};
  EXPECT_EQ(infer_session_create(digits.m, &o, &session), INFER_INVALID_ARGUMENT);  // no size
  o.size = sizeof(o);
  o.device = "tpu";
  EXPECT_EQ(infer_session_create(digits.m, &o, &session), INFER_INVALID_ARGUMENT);
  EXPECT_THAT(infer_last_error(), HasSubstr("'tpu' is no device"));
  EXPECT_EQ(session, nullptr);
  infer_model_free(nullptr);
  infer_session_free(nullptr);
  infer_result_free(nullptr);
}

/// A program from before `instances` were added.
TEST(CApi, TakesShorterOptions) {
  const Model model(Digits());
  infer_session_options o{};
  o.size = offsetof(infer_session_options, instances);
  o.threads = 1;
  o.instances = -7;  // not read
  infer_session* session = nullptr;
  EXPECT_EQ(infer_session_create(model.m, &o, &session), INFER_OK) << infer_last_error();
  infer_session_free(session);
}

}  // namespace
}  // namespace c_api_test
