#pragma once
/// The demo model through the C API, and images for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/c_api/infer.h"

namespace c_api_test {

/// A model with the interface of the demo model that costs a hundredth of it, with weights by
/// chance.
inline const char* Small() { return INFER_SMALL_MODEL; }
inline const char* Digits() { return INFER_SOURCE_DIR "/datasets/demo/digits.onnx"; }

struct Model {
  explicit Model(const char* path = Digits()) {
    EXPECT_EQ(infer_model_load(path, &m), INFER_OK) << infer_last_error();
  }
  ~Model() { infer_model_free(m); }
  Model(const Model&) = delete;
  /// The bytes of its file.
  std::string Saved() const {
    const auto path = std::filesystem::temp_directory_path() /
                      ("c_api_saved_" + std::to_string(getpid()) + ".onnx");
    EXPECT_EQ(infer_model_save(m, path.c_str()), INFER_OK) << infer_last_error();
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::filesystem::remove(path);
    return bytes;
  }
  infer_model* m = nullptr;
};

struct Session {
  explicit Session(const Model& model, infer_session_options o = {}) {
    o.size = sizeof(o);
    EXPECT_EQ(infer_session_create(model.m, &o, &s), INFER_OK) << infer_last_error();
  }
  ~Session() { infer_session_free(s); }
  Session(const Session&) = delete;
  infer_session* s = nullptr;
};

/// f32[1,1,32,32].
struct Image {
  explicit Image(float scale = 1) : pixels(1024) {
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = scale * std::sin(0.01F * static_cast<float>(i));
  }
  infer_tensor tensor() const {
    return {INFER_F32, 4, dims, pixels.data(), pixels.size() * sizeof(float)};
  }
  std::vector<float> pixels;
  int64_t dims[4] = {1, 1, 32, 32};
};

inline std::vector<float> Floats(const infer_result* result) {
  infer_tensor t{};
  EXPECT_EQ(infer_result_output(result, 0, &t), INFER_OK) << infer_last_error();
  EXPECT_EQ(t.dtype, INFER_F32);
  std::vector<float> values(t.bytes / sizeof(float));
  std::memcpy(values.data(), t.data, t.bytes);
  return values;
}

inline std::vector<float> RunSession(infer_session* s, const infer_tensor& input) {
  infer_result* result = nullptr;
  EXPECT_EQ(infer_session_run(s, &input, 1, &result), INFER_OK) << infer_last_error();
  if (!result) return {};
  std::vector<float> values = Floats(result);
  infer_result_free(result);
  return values;
}

}  // namespace c_api_test
