#pragma once
/// What rewrites are worth by prediction: bytes, and time by the machine's roofline.
#include "passes/rewrite/driver.h"
#include "tools/common/report.h"
#include "tools/common/roofline.h"

namespace infer {

/// The least time of one node, in ms, run by itself; 0 for what only renames memory. Nothing where
/// its types are not static.
std::optional<double> NodeFloorMs(const Node& n, const Roofline& roofline, int64_t program_bytes);
/// The sum over a graph's nodes whose time is known.
double GraphFloorMs(const Graph& g, const Roofline& roofline, int64_t program_bytes);

struct Opportunity {
  std::string rule, at;
  std::vector<std::string> nodes;
  Price price;
  std::optional<double> saved_ms;
  int64_t saved_bytes() const {
    return price.before.bytes_read + price.before.bytes_written - price.after.bytes_read -
           price.after.bytes_written;
  }
};

/// Lets everything pass, and notes what it is worth.
class PricingReviewer : public MatchReviewer {
 public:
  PricingReviewer(const Roofline& roofline, int64_t program_bytes)
      : roofline_(roofline), program_bytes_(program_bytes) {}
  Status Review(const Candidate& c, MatchRecord& record) override;
  const std::vector<Opportunity>& found() const { return found_; }

 private:
  const Roofline& roofline_;
  const int64_t program_bytes_;
  std::vector<Opportunity> found_;
};

struct Analysis {
  const Roofline& roofline;
  double before_ms = 0, after_ms = 0;  ///< of the whole model, predicted
  std::vector<Opportunity> found;
};
std::string ToText(const Analysis& a);
Json ToJson(const Analysis& a);

}  // namespace infer
