/// INT8 of trained classifiers, calibrated and evaluated on disjoint halves of labelled data: top-1
/// within 1 point of f32, or not significantly worse (exact McNemar). And the integers of the cpu
/// backend against the QDQ graph on the reference kernels. Reads INFER_TEST_DATA; with
/// INFER_TEST_OUTPUT set, leaves the INT8 files and what they answered there for
/// tests/judge/quantized_classifiers.py.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>

#include "datasets/dataset.h"
#include "datasets/readers/npy.h"
#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/isa.h"
#include "lib/support/strings.h"
#include "quant/accuracy/compare.h"
#include "quant/scheme/quantize.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

constexpr double kMaxDrop = 0.01;
constexpr double kSignificance = 0.05;
constexpr double kBf16Agreement = 0.98;  // of top-1
constexpr int64_t kMaxPerHalf = 1000;
/// Of the elements of the groups DQ -> operators -> Q, each with the reference's operands.
constexpr double kMaxOffByOne = 2e-5;
constexpr int64_t kElementsToCompare = 2'000'000;

struct Classifier {
  const char *model, *data, *labels, *preprocess;
};

constexpr char kCifar[] = "cifar10_dev_images_u8_nhwc.npy",
               kCifarLabels[] = "cifar10_dev_labels.npy";
constexpr char kMnist[] = "mnist_dev_images_u8.npy", kMnistLabels[] = "mnist_dev_labels.npy";
constexpr char kCifarA[] = "layout=nchw,scale=1/255,mean=.4914:.4822:.4465,std=.2023:.1994:.2010";
constexpr char kCifarB[] = "layout=nchw,scale=1/255,mean=.4914:.4822:.4465,std=.2471:.2435:.2616";

const Classifier kClassifiers[] = {
    {"resnet20_cifar", kCifar, kCifarLabels, kCifarA},
    {"vit_ibp_cifar", kCifar, kCifarLabels, kCifarA},
    {"cifar_resnet_2b", kCifar, kCifarLabels, kCifarB},
    {"cifar_sri_resnet_a", kCifar, kCifarLabels, kCifarB},
    {"winml_cifar", kCifar, kCifarLabels, "layout=nchw,scale=1/255,mean=.5,std=.5"},
    {"mnist_cntk8", kMnist, kMnistLabels, "layout=nchw,dtype=f32"},
    {"mnist_fc_256x4", kMnist, kMnistLabels, "scale=1/255,shape=784x1"},
    {"squeezenet11_fp32", "imagenet_dev_256x256_u8_nhwc.npy", "imagenet_dev_labels.npy",
     "layout=nchw,crop=224,order=bgr,mean=103.939:116.779:123.68"},
    {"matchboxnet_kws", "fsdd_dev_mfcc_f32.npy", "fsdd_dev_labels33.npy", ""},
};

Samples SamplesOf(std::shared_ptr<const Dataset> data) {
  Samples s;
  s.count = data->size();
  s.get = [data](int64_t i) -> Result<std::vector<Datum>> {
    INFER_ASSIGN(Batch batch, data->ReadRange(i, 1));
    return std::vector<Datum>{Datum(batch.inputs[0].second)};
  };
  s.labels = [data](int64_t i) -> Result<std::vector<int64_t>> {
    return std::vector<int64_t>{data->labels()[static_cast<size_t>(i)]};
  };
  return s;
}

/// Rows of answers, for the judge.
Tensor Stack(const std::vector<Tensor>& rows) {
  Dims dims = rows[0].dims();
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  Tensor all(rows[0].dtype(), dims);
  size_t at = 0;
  for (const Tensor& row : rows) {
    std::copy(row.bytes().begin(), row.bytes().end(), all.mutable_raw() + at);
    at += row.bytes().size();
  }
  return all;
}

void WriteNpy(const std::string& path, const Tensor& t) {
  const auto bytes = NpyBytes(t);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  std::ofstream(path, std::ios::binary) << *bytes;
}

void LeaveForJudge(const Classifier& c, const Model& model, const Graph& golden,
                   const Samples& samples, const Backend& backend) {
  const char* folder = std::getenv("INFER_TEST_OUTPUT");
  if (!folder) return;
  const std::string stem = Cat(folder, "/", c.model);
  std::filesystem::create_directories(folder);
  const auto written = ExportModel(model, stem + ".int8.onnx");
  ASSERT_TRUE(written.ok()) << written.status().message();
  const auto g = backend.Compile(golden, {.level = 0});
  const auto q = backend.Compile(model.graph, {.level = 1});
  ASSERT_TRUE(g.ok() && q.ok());
  std::vector<Tensor> inputs, of_golden, of_int8, labels;
  for (int64_t i = 0; i < samples.count; ++i) {
    const auto in = samples.get(i);
    const auto a = RunOnce(**g, *in), b = RunOnce(**q, *in);
    ASSERT_TRUE(a.ok() && b.ok());
    inputs.push_back((*in)[0].tensor());
    of_golden.push_back((*a)[0].tensor());
    of_int8.push_back((*b)[0].tensor());
    labels.push_back(Tensor::Int64s(*samples.labels(i)));
  }
  WriteNpy(stem + ".inputs.npy", Stack(inputs));
  WriteNpy(stem + ".golden.npy", Stack(of_golden));
  WriteNpy(stem + ".int8.npy", Stack(of_int8));
  WriteNpy(stem + ".labels.npy", Stack(labels));
}

/// A quantized graph whose integers are outputs after its own; `cut`: also inputs after its own, so
/// that every group of operators works on what it is given.
struct Opened {
  Graph graph;
  size_t first = 0;              ///< output that is the first integer tensor
  std::vector<size_t> fed = {};  ///< by added input: the output with its value
};
Opened Open(const Graph& quantized, bool cut) {
  Opened o{quantized.Clone()};
  GraphEditor editor(o.graph);
  o.first = o.graph.outputs().size();
  std::vector<Value*> integers;
  for (const auto& n : o.graph.nodes())
    if (n->Is("QuantizeLinear")) integers.push_back(n->output(0));
  for (Value* v : integers) {
    const std::vector<Use> uses = v->uses();
    editor.MarkOutput(v);
    if (!cut) continue;
    o.fed.push_back(o.graph.outputs().size() - 1);
    Value* in = editor.AddInput(Cat("in_", v->name()), v->type());
    for (const Use& use : uses) editor.SetOperand(*use.user, use.operand, in);
  }
  return o;
}

struct Differences {
  int64_t elements = 0, off_by_one = 0, further = 0;
  void Add(const Datum& got, const Datum& want) {
    const Tensor &a = got.tensor(), &b = want.tensor();
    ASSERT_EQ(a.dims(), b.dims());
    elements += a.num_elements();
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      const int64_t d = std::abs(a.IntAt(i) - b.IntAt(i));
      off_by_one += d == 1;
      further += d > 1;
    }
  }
};

/// Each group alone may be off by one where a result lies on a half but for the last bits of f32.
/// In the whole network one such element changes all that it reaches: that is printed, not limited.
void CheckIntegers(std::string_view name, const Graph& quantized, const Samples& samples,
                   const Backend& backend) {
  const Opened whole = Open(quantized, false), groups = Open(quantized, true);
  const auto run_whole = backend.Compile(whole.graph, {.level = 1});
  const auto run_groups = backend.Compile(groups.graph, {.level = 1});
  ASSERT_TRUE(run_whole.ok() && run_groups.ok());
  Differences alone, carried;
  for (int64_t s = 0; s < samples.count && alone.elements < kElementsToCompare; ++s) {
    std::vector<Datum> inputs = *samples.get(s);
    const auto want = Evaluate(whole.graph, inputs);
    const auto got = RunOnce(**run_whole, inputs);
    ASSERT_TRUE(want.ok() && got.ok());
    for (size_t i : groups.fed) inputs.push_back((*want)[i]);
    const auto each = RunOnce(**run_groups, inputs);
    ASSERT_TRUE(each.ok()) << each.status().message();
    for (size_t i = whole.first; i < want->size(); ++i) {
      alone.Add((*each)[i], (*want)[i]);
      carried.Add((*got)[i], (*want)[i]);
    }
  }
  std::cout << Cat(name, ": integers ", alone.elements, ", groups alone off by one ",
                   alone.off_by_one, ", by more ", alone.further, "; whole network off by one ",
                   carried.off_by_one, ", by more ", carried.further, "\n");
  EXPECT_EQ(alone.further, 0);
  EXPECT_LE(static_cast<double>(alone.off_by_one),
            kMaxOffByOne * static_cast<double>(alone.elements));
}

class Classifiers : public testing::TestWithParam<Classifier> {
 protected:
  void SetUp() override {
    const Classifier& c = GetParam();
    const char* root = std::getenv("INFER_TEST_DATA");
    if (!root) GTEST_SKIP() << "INFER_TEST_DATA is not set: no trained classifiers here";
    const std::string path = Cat(root, "/models/", c.model, "/model.onnx");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
    model = ImportModel(path, ops_);
    ASSERT_TRUE(model.ok()) << model.status().message();
    DataOptions data;
    data.data = Cat(root, "/labelled/", c.data);
    data.labels = Cat(root, "/labelled/", c.labels);
    data.preprocess = c.preprocess;
    auto dataset = OpenDataset(data);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    all = SamplesOf(std::make_shared<const Dataset>(*std::move(dataset)));
  }

 private:
  const OpRegistry ops_ = AllOps();

 protected:
  Result<Model> model = Unsupported("not read");
  Samples all;
};

/// Products in bf16 (Compute::kBF16): the class stays, and what is lost is no more than chance.
TEST_P(Classifiers, Bf16KeepsTop1) {
  const auto backend = MakeCpuBackend();
  std::vector<int64_t> first(static_cast<size_t>(std::min(all.count, kMaxPerHalf)));
  std::iota(first.begin(), first.end(), int64_t{0});
  CompareOptions options;
  options.candidate_compute = Compute::kBF16;
  const auto accuracy =
      Compare(model->graph, *backend, model->graph, *backend, Subset(all, first), options);
  ASSERT_TRUE(accuracy.ok()) << accuracy.status().message();
  const PairedAccuracy& task = *accuracy->task;
  const double agreement = accuracy->outputs[0].rows->top1_agreement;
  std::cout << Cat(GetParam().model, ": f32 ", task.golden_accuracy(), ", bf16 ",
                   task.candidate_accuracy(), ", lost ", task.lost, ", gained ", task.gained,
                   " of ", task.samples, ", agreement ", agreement, ", SQNR ",
                   accuracy->outputs[0].metrics.sqnr_db, " dB\n");
  EXPECT_GE(agreement, kBf16Agreement);
  EXPECT_TRUE(task.drop() <= kMaxDrop || task.p_value() > kSignificance);
}

TEST_P(Classifiers, Int8KeepsTop1) {
  const Classifier& c = GetParam();
  auto split = SplitSamples(all.count, all.count / 2, 1);
  ASSERT_TRUE(split.ok());
  split->calib.resize(std::min<size_t>(split->calib.size(), kMaxPerHalf));
  split->eval.resize(std::min<size_t>(split->eval.size(), kMaxPerHalf));
  const Samples calibration = Subset(all, split->calib), evaluation = Subset(all, split->eval);

  const auto backend = MakeCpuBackend();
  const Graph golden = model->graph.Clone();
  QuantizeOptions options;
  // In ONNX Runtime, which runs the file too, sums of 8-bit weights saturate here (docs/adr/0051).
  options.scheme.weights.reduce_range = !HasIsa(Isa::kVnni);
  const auto report = QuantizeStatic(model->graph, calibration, *backend, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->integer_layers, 0);
  const auto accuracy = Compare(golden, *backend, model->graph, *backend, evaluation);
  ASSERT_TRUE(accuracy.ok()) << accuracy.status().message();
  const PairedAccuracy& task = *accuracy->task;
  std::cout << Cat(c.model, ": f32 ", task.golden_accuracy(), ", int8 ", task.candidate_accuracy(),
                   ", lost ", task.lost, ", gained ", task.gained, " of ", task.samples, ", p ",
                   task.p_value(), ", agreement ", accuracy->outputs[0].rows->top1_agreement,
                   ", SQNR ", accuracy->outputs[0].metrics.sqnr_db, " dB, integer layers ",
                   report->integer_layers, ", constants ", report->weight_bytes_before, " -> ",
                   report->weight_bytes_after, " bytes\n");
  EXPECT_TRUE(task.drop() <= kMaxDrop || task.p_value() > kSignificance);
  CheckIntegers(c.model, model->graph, evaluation, *backend);
  LeaveForJudge(c, *model, golden, evaluation, *backend);
}

INSTANTIATE_TEST_SUITE_P(Shared, Classifiers, testing::ValuesIn(kClassifiers),
                         [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace infer
