#pragma once
/// Samples for the demo model, and what two models compute of them.
#include <functional>

#include "tests/runtime/c_api/digits.h"

namespace c_api_test {

/// Images as an array and as a callback.
struct Images {
  explicit Images(size_t count = 24) {
    for (size_t i = 0; i < count; ++i)
      images.emplace_back(0.5F + 0.1F * static_cast<float>(i % 10));
    for (const Image& image : images) tensors.push_back(image.tensor());
  }
  infer_samples array() const {
    infer_samples s{};
    s.size = sizeof(s);
    s.count = tensors.size();
    s.inputs = tensors.data();
    return s;
  }
  infer_samples callback() {
    infer_samples s = array();
    s.inputs = nullptr;
    s.read = &Images::Read;
    s.user = this;
    return s;
  }
  static int Read(void* user, size_t i, infer_tensor* inputs) {
    auto& images = *static_cast<Images*>(user);
    ++images.reads;
    if (images.edit && i == images.edit_at) return images.edit(inputs[0] = images.tensors[i]);
    images.scratch = images.images[i].pixels;  // overwritten by the next call
    inputs[0] = images.tensors[i];
    inputs[0].data = images.scratch.data();
    return INFER_OK;
  }
  std::vector<Image> images;
  std::vector<infer_tensor> tensors;
  std::vector<float> scratch;
  int reads = 0;
  size_t edit_at = 2;
  std::function<int(infer_tensor&)> edit;
};

/// Of the first output.
inline infer_accuracy Compared(const Model& golden, const Model& candidate,
                               const infer_samples& samples) {
  infer_comparison* c = nullptr;
  EXPECT_EQ(infer_model_compare(golden.m, candidate.m, &samples, nullptr, &c), INFER_OK)
      << infer_last_error();
  infer_accuracy a{};
  a.size = sizeof(a);
  EXPECT_EQ(infer_comparison_outputs(c), 1U);
  EXPECT_EQ(infer_comparison_output(c, 0, &a), INFER_OK) << infer_last_error();
  a.name = nullptr;  // the comparison's
  infer_comparison_free(c);
  return a;
}

}  // namespace c_api_test
