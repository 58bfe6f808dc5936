#pragma once
/// A model file whose settings are compiled when they are asked for, and kept while memory allows.
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "tools/bench/session.h"
#include "tools/infer_bench/load/model_engine.h"
#include "tools/infer_bench/load/served_model.h"
#include "tools/infer_bench/tune/search.h"

namespace infer::bench {

class ModelTarget : public TuneTarget {
 public:
  /// `session`: all but precision, batch and threads.
  ModelTarget(Context& context, std::string path, SessionOptions session)
      : context_(context), path_(std::move(path)), session_(std::move(session)) {}
  double NowS() override;
  Result<OpenedSetting> Open(const TuneSetting& setting) override;
  /// As in reports; null before a setting was opened.
  const Json& model() const { return model_; }
  const ModelInputs& inputs() const { return inputs_; }

 private:
  struct Compiled {
    std::tuple<std::string, std::string, int64_t, int> key;  // variant, precision, batch, threads
    engine::ModelSource source;
    std::vector<Datum> inputs;
    int64_t batch = 1;
    int64_t bytes = 0;  // of weights, activations and inputs
    std::optional<double> sqnr_db;
  };
  Result<Session> OpenQuietly(const std::string& variant, const SessionOptions& options);
  Result<Compiled> Compile(const TuneSetting& setting);
  Result<double> SqnrOf(Session& s, int64_t batch);
  Status Make(const TuneSetting& setting);
  void Forget();
  Result<OpenedSetting> OpenBare(const Compiled& c, const TuneSetting& setting);
  Result<OpenedSetting> OpenServed(const Compiled& c, const TuneSetting& setting);

  Context& context_;
  std::string path_;
  SessionOptions session_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::deque<Compiled> kept_;  // the latest used in front
  std::map<std::tuple<std::string, std::string, int64_t>, Status> failures_;
  std::map<std::pair<std::string, std::string>, double> sqnr_db_;  // of variant and precision
  std::map<int64_t, std::vector<Datum>> golden_;                   // outputs by batch
  std::unique_ptr<Engine> engine_;
  Json model_;
  ModelInputs inputs_;
};

}  // namespace infer::bench
