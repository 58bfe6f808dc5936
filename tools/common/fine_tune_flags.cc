#include "tools/common/fine_tune_flags.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/train/check_request.h"
#include "runtime/engine/batch_axes.h"

namespace infer {
namespace {

/// "" or why runs of the graph cannot be stacked along the first axis of everything.
std::string WhyNotStacked(const Graph& open) {
  const engine::BatchAxes axes = engine::ProveBatchAxes(open);
  if (!axes.proved) return axes.reason;
  for (const auto* of : {&axes.inputs, &axes.outputs})
    for (const int axis : *of)
      if (axis != 0) return "samples do not lie along the first axis everywhere";
  return "";
}

Json ToJson(const FineTuneReport& r, const FineTuneOptions& o) {
  Json j = {{"steps", r.steps},
            {"learning_rate", o.rate},
            {"batch", r.batch},
            {"stacked", r.stacked},
            {"temperature", o.temperature},
            {"label_weight", r.with_labels ? o.label_weight : 0.0},
            {"activations", r.activations},
            {"seed", o.seed},
            {"shifted", o.augment.shift},
            {"mirrored", o.augment.mirror},
            {"parameters", r.parameters},
            {"training_samples", r.training_samples},
            {"held_out_samples", r.held_out_samples},
            {"resumed_from", r.resumed_from},
            {"best_step", r.best_step},
            {"loss_before", JsonNumber(r.loss_before)},
            {"loss_after", JsonNumber(r.loss_after)},
            {"diverged", r.diverged},
            {"seconds", r.seconds}};
  if (!r.why_not_stacked.empty()) j["why_not_stacked"] = r.why_not_stacked;
  j["points"] = Json::array();
  for (const FineTunePoint& p : r.points) {
    Json point = {{"step", p.step}, {"held_out_loss", JsonNumber(p.held_out)}};
    if (p.training >= 0) point["training_loss"] = JsonNumber(p.training);
    j["points"].push_back(std::move(point));
  }
  return j;
}

std::string SummaryOf(const FineTuneReport& r) {
  return Cat(
      "fine-tuning: ", r.steps, " steps of ", r.batch, " samples in ", Rounded(r.seconds, 3),
      " s; held-out loss ", Rounded(r.loss_before, 4), " -> ", Rounded(r.loss_after, 4),
      r.best_step == 0 ? ": the weights stay as they were" : Cat(", weights of step ", r.best_step),
      "\n");
}

}  // namespace

void FineTuneFlags::Declare(Options& o, const std::string& what) {
  o.Section("Fine-tuning");
  o.Value("--fine-tune-steps", &steps,
          Cat("Train ", what,
              " for so many steps against the golden model's outputs on the calibration data"));
  o.Value("--fine-tune-lr", &rate, "Highest learning rate");
  o.Rarely();
  o.Value("--fine-tune-batch", &batch, "Samples of a step", 1);
  o.Choice("--fine-tune-copies", &copies, {"none", "shifted", "mirrored", "both"},
           "Copies of images that are trained on, too: shifted by up to an eighth, mirrored");
  o.Value("--fine-tune-labels", &labels,
          "Weight of the labels of the calibration data beside the golden model's outputs");
  o.Value("--fine-tune-activations", &activations,
          "Weight of the error of inner values that both models have in the same shape");
  o.Value("--fine-tune-temperature", &temperature, "Of the distillation of class scores");
  o.Value("--fine-tune-checkpoint", &checkpoint,
          "Keeps the state of the training; the same command goes on from it", PathUse::kWrite);
  o.Value(
      "--fine-tune-checkpoint-every", &checkpoint_seconds,
      "Seconds from one checkpoint to the next, at least 20 times as long as writing one takes");
}

Status FineTuneFlags::Check() const {
  if (!wanted()) {
    if (!checkpoint.empty())
      return InvalidArgument("--fine-tune-checkpoint: --fine-tune-steps N is missing");
    return {};
  }
  if (!(rate > 0)) return InvalidArgument("--fine-tune-lr: a learning rate is above 0");
  if (!(temperature > 0))
    return InvalidArgument("--fine-tune-temperature: a temperature is above 0");
  return {};
}

Status FineTuneFlags::CheckData(const Graph& golden, const Samples& calibration,
                                std::stop_token stop) const {
  if (!wanted()) return {};
  if (calibration.count == 0)
    return InvalidArgument(
        "--fine-tune-steps trains on calibration data: --data X, or --calib X --eval Z");
  FineTuneOptions o;
  o.steps = steps;
  o.rate = rate;
  o.batch = batch;
  o.temperature = temperature;
  o.stop = std::move(stop);
  return CheckFineTune(golden, calibration, o);
}

Samples FineTuneFlags::ToFit(const Samples& calibration) const {
  return wanted() ? WithoutHeldOut(calibration) : calibration;
}

FineTuneOptions FineTuneFlags::Request(Context& context, uint64_t seed, int threads) const {
  FineTuneOptions o;
  o.steps = steps;
  o.rate = rate;
  o.batch = batch;
  o.temperature = temperature;
  o.label_weight = labels;
  o.activation_weight = activations;
  o.augment.shift = copies == "shifted" || copies == "both";
  o.augment.mirror = copies == "mirrored" || copies == "both";
  o.seed = seed;
  o.checkpoint = checkpoint;
  o.checkpoint_seconds = checkpoint_seconds;
  o.threads = threads;
  o.why_not_stacked = WhyNotStacked;
  o.tell = [&context](const std::string& line) { context.Note(line); };
  o.progress = [&context](const std::string& step, int64_t done, int64_t total) {
    context.Progress(step, done, total);
  };
  o.stop = context.stop();
  return o;
}

Json TellFineTuning(Context& context, const FineTuneReport& done, const FineTuneOptions& options) {
  if (done.diverged)
    context.Warn("fine-tuning diverged: the loss is no number; try a lower --fine-tune-lr");
  context.Print(SummaryOf(done));
  return ToJson(done, options);
}

}  // namespace infer
