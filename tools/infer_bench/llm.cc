/// infer-bench llm: how fast a text decoder reads prompts and writes tokens.
#include <algorithm>

#include "lib/support/measure.h"
#include "lib/support/readable.h"
#include "lib/support/statistics.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/common/host.h"
#include "tools/common/model_options.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/llm/decoder.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

/// Tokens where the command line names none.
constexpr int64_t kPrompt = 512, kGenerated = 128;

/// A measurement: `tokens` of each sample, in one run or one by one.
struct LlmTest {
  bool prompt = false;
  int64_t batch = 1, depth = 0, tokens = 0;
  bool by_default = false;  ///< fewer tokens will do where the caches hold fewer
  std::string name() const { return Cat(prompt ? "prompt " : "generate ", tokens); }
};

struct LlmResult {
  LlmTest test;
  double first_s = 0;           ///< of the first time, which plans shapes
  std::vector<double> seconds;  ///< of each repetition
  int64_t cache_bytes = 0;
  double PerSecond(double s) const { return static_cast<double>(test.batch * test.tokens) / s; }
};

Result<std::vector<int64_t>> Counts(const std::vector<std::string>& texts, std::string_view option,
                                    int64_t least) {
  std::vector<int64_t> counts;
  for (const std::string& text : texts) {
    const auto n = ParseInt(text);
    if (!n || *n < least || *n > (int64_t{1} << 24))
      return InvalidArgument(Cat(option, ": '", text, "' is no number from ", least, " on"));
    counts.push_back(*n);
  }
  return counts;
}

class LlmCommand : public Command {
 public:
  std::string_view name() const override { return "llm"; }
  std::string_view help() const override {
    return "Tokens a second of a text decoder, for prompts and step by step";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench llm decoder.onnx --threads 2\n"
           "  infer-bench llm decoder.onnx --prompt 128,512 --generate 64 --depth 0,1024\n"
           "  infer-bench zoo tinyllama-1.1b-int4 --past 1024 -o t.onnx && infer-bench llm "
           "t.onnx\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "ONNX model of a decoder with caches as inputs and outputs", true,
                 PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    o.Values(
        "--prompt", &prompt_,
        "Tokens of a prompt, read in one run; 0: none (default: 512, or what the caches hold)");
    o.Values("--generate", &generate_,
             "Tokens written one by one; 0: none (default: 128, or what the caches hold)");
    o.Values("--depth", &depth_, "Tokens that are in the caches before");
    o.Values("--batch", &batch_, "Sequences side by side");
    o.Value("--repetitions", &repetitions_,
            "Of each measurement, behind a first that is told apart", 1);
    o.Value("--vocabulary", &vocabulary_,
            "Tokens are drawn below it; 0: as many as the model gives scores for");
    o.Value("--seed", &seed_, "Seed of the tokens");
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_ASSIGN(const std::vector<LlmTest> tests, Tests());
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    INFER_TRY(TellCompute(context, device_));
    context.Step("load " + path_);
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    Json report = NewReport(context, "infer-bench/llm@1");
    report["environment"] = ToJson(environment);
    report["model"] = ToJson(model, path_);
    report["device"] = {{"device", device_.device},
                        {"level", device_.level},
                        {"compute", device_.compute},
                        {"threads", device_.threads}};
    context.Step("compile " + path_);
    const auto begin = std::chrono::steady_clock::now();
    INFER_ASSIGN(const auto program, CompileOwnedFor(std::move(model.graph), device_));
    report["compile_ms"] = MsSince(begin);
    const MachineWatch watch;
    INFER_TRY(MeasureAll(context, program, tests));
    const Watched watched = watch.Finish();
    for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    report["results"] = Json::array();
    for (const LlmResult& r : results_) report["results"].push_back(ResultJson(r));
    report["memory"] = {{"weight_bytes", weight_bytes_},
                        {"peak_resident_bytes", PeakResidentBytes()}};
    report["watch"] = ToJson(watched);
    report["interrupted"] = context.stop().stop_requested();
    Print(context);
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  Result<std::vector<LlmTest>> Tests() const {
    INFER_ASSIGN(const auto prompts, Counts(prompt_, "--prompt", 0));
    INFER_ASSIGN(const auto generated, Counts(generate_, "--generate", 0));
    INFER_ASSIGN(const auto depths, Counts(depth_, "--depth", 0));
    INFER_ASSIGN(const auto batches, Counts(batch_, "--batch", 1));
    std::vector<LlmTest> tests;
    for (int64_t batch : batches)
      for (int64_t depth : depths)
        for (bool prompt : {true, false}) {
          const bool by_default = (prompt ? prompts : generated).empty();
          const std::vector<int64_t> usual = {prompt ? kPrompt : kGenerated};
          for (int64_t tokens : by_default ? usual : prompt ? prompts : generated)
            if (tokens > 0) tests.push_back({prompt, batch, depth, tokens, by_default});
        }
    if (tests.empty()) return InvalidArgument("neither --prompt nor --generate has tokens");
    return tests;
  }

  /// The tests that the model can take, before the first of them takes time.
  static Result<std::vector<LlmTest>> Fitting(Context& context, const Decoder& decoder,
                                              const std::vector<LlmTest>& tests) {
    std::vector<LlmTest> fitting;
    for (LlmTest test : tests) {
      const int64_t room = decoder.capacity() - test.depth;
      if (test.by_default && decoder.capacity() > 0 && room > 0)
        test.tokens = std::min(test.tokens, room);
      std::string why;
      if (test.prompt && decoder.step() > 0 && decoder.step() != test.tokens)
        why = Cat("takes ", decoder.step(), decoder.step() == 1 ? " token" : " tokens", " a run");
      else if (test.by_default && !test.prompt && (decoder.step() > 1 || !decoder.has_caches()))
        why = "writes no single tokens";
      if (!why.empty()) {
        context.Note(Cat(test.name(), ": left out, the model ", why));
        continue;
      }
      INFER_TRY(CheckFits(decoder, test));
      fitting.push_back(test);
    }
    if (fitting.empty()) return InvalidArgument("nothing that was asked for fits the model");
    return fitting;
  }

  Status MeasureAll(Context& context, const std::shared_ptr<const Program>& program,
                    const std::vector<LlmTest>& asked) {
    std::optional<Decoder> decoder;
    int64_t batch = asked.front().batch;
    INFER_ASSIGN(decoder, Decoder::Make(program, batch, vocabulary_, seed_));
    INFER_ASSIGN(const std::vector<LlmTest> tests, Fitting(context, *decoder, asked));
    for (size_t i = 0; i < tests.size() && !context.stop().stop_requested(); ++i) {
      context.Progress("measure", static_cast<int64_t>(i), static_cast<int64_t>(tests.size()));
      if (tests[i].batch != batch) {
        decoder.reset();  // its caches go before others are made
        batch = tests[i].batch;
        INFER_ASSIGN(decoder, Decoder::Make(program, batch, vocabulary_, seed_));
      }
      INFER_TRY(Measure(context, *decoder, tests[i]));
    }
    return {};
  }

  static Status CheckFits(const Decoder& decoder, const LlmTest& test) {
    if (!test.prompt && decoder.step() > 1)
      return Unsupported(
          Cat("the model takes ", decoder.step(), " tokens a run: none is written by itself"));
    if (!decoder.has_caches() && (!test.prompt || test.depth > 0))
      return Unsupported(
          "the model has no caches: only --prompt at --depth 0 can be measured "
          "(--generate 0)");
    if (decoder.capacity() > 0 && test.depth + test.tokens > decoder.capacity())
      return InvalidArgument(Cat(test.name(), " at depth ", test.depth, ": the caches hold ",
                                 decoder.capacity(), " tokens"));
    return {};
  }

  Status Measure(Context& context, Decoder& decoder, const LlmTest& test) {
    LlmResult r{.test = test};
    const int64_t runs = test.prompt ? 1 : test.tokens;
    for (int64_t i = 0; i <= repetitions_; ++i) {
      INFER_TRY(decoder.Begin(test.depth));
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t t = 0; t < runs; ++t) {
        const Status ran = decoder.Feed(test.prompt ? test.tokens : 1, context.stop());
        if (context.stop().stop_requested()) return {};
        INFER_TRY(ran);
      }
      const double seconds = MsSince(begin) / 1e3;
      if (i == 0)
        r.first_s = seconds;
      else
        r.seconds.push_back(seconds);
    }
    r.cache_bytes = decoder.cache_bytes(test.depth + test.tokens);
    weight_bytes_ = std::max(weight_bytes_, decoder.context().memory().weight_bytes);
    results_.push_back(std::move(r));
    return {};
  }

  static Json ResultJson(const LlmResult& r) {
    const Distribution d = Describe(r.seconds);
    return {{"test", r.test.prompt ? "prompt" : "generate"},
            {"batch", r.test.batch},
            {"depth", r.test.depth},
            {"tokens", r.test.tokens},
            {"seconds", r.seconds},
            {"first_s", r.first_s},
            {"tokens_per_s", r.PerSecond(d.median)},
            {"tokens_per_s_least", r.PerSecond(d.max)},
            {"tokens_per_s_most", r.PerSecond(d.min)},
            {"cache_bytes", r.cache_bytes}};
  }
  void Print(Context& context) const {
    std::vector<std::vector<std::string>> rows = {{"test", "batch", "depth", "tokens/s", "least",
                                                   "most", "ms a run", "first s", "caches MB"}};
    for (const LlmResult& r : results_) {
      const Distribution d = Describe(r.seconds);
      const double runs = r.test.prompt ? 1 : static_cast<double>(r.test.tokens);
      rows.push_back({r.test.name(), Cat(r.test.batch), Cat(r.test.depth),
                      Rounded(r.PerSecond(d.median), 4), Rounded(r.PerSecond(d.max), 4),
                      Rounded(r.PerSecond(d.min), 4), Rounded(1e3 * d.median / runs, 4),
                      Rounded(r.first_s, 3),
                      Rounded(static_cast<double>(r.cache_bytes) / (1 << 20), 3)});
    }
    context.Print(TextTable(rows));
    context.PrintLine(Cat("weights ", HumanBytes(weight_bytes_), ", peak ",
                          HumanBytes(PeakResidentBytes()), "; medians of ", repetitions_));
  }

  std::string path_;
  ModelOptions model_;
  DeviceOptions device_;
  std::vector<std::string> prompt_, generate_, depth_ = {"0"}, batch_ = {"1"};
  int64_t repetitions_ = 5, vocabulary_ = 0;
  uint64_t seed_ = 0;
  std::vector<LlmResult> results_;
  int64_t weight_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeLlmCommand() { return std::make_unique<LlmCommand>(); }

}  // namespace infer
