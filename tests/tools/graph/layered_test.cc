/// The layered drawing: what holds for every graph, and what it makes of small ones.
#include "tools/graph/layered.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace infer {
namespace {

struct Seen {
  std::vector<int> row_of;              // of boxes
  std::vector<std::vector<int>> bends;  // rows of a wire's bends
};
/// Every box stands in one row, in order, far enough from its neighbours.
Seen CheckRows(const LevelToLay& level, const Rows& rows) {
  Seen seen{std::vector<int>(level.widths.size(), -1),
            std::vector<std::vector<int>>(level.wires.size())};
  const auto width = [&](const Place& p) {
    return p.box < 0 ? 0 : level.widths[static_cast<size_t>(p.box)];
  };
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const Place& p = rows[r][i];
      EXPECT_GE(p.x - width(p) / 2, -1e-6);
      if (i > 0) {
        const Place& q = rows[r][i - 1];
        EXPECT_GE(p.x - q.x, DistanceOf(q, width(q), p, width(p)) - 1e-6);
      }
      if (p.box >= 0) {
        EXPECT_EQ(seen.row_of[static_cast<size_t>(p.box)], -1);
        seen.row_of[static_cast<size_t>(p.box)] = static_cast<int>(r);
      } else {
        seen.bends[static_cast<size_t>(p.wire)].push_back(static_cast<int>(r));
      }
    }
  EXPECT_THAT(seen.row_of, testing::Each(testing::Ge(0)));
  return seen;
}

TEST(SpreadOut, KeepsPlacesThatFit) {
  EXPECT_THAT(SpreadOut(std::vector<double>{0, 10, 30}, std::vector<double>{1, 1, 1},
                        std::vector<double>{5, 5}),
              testing::Pointwise(testing::DoubleNear(1e-9), std::vector<double>{0, 10, 30}));
}

TEST(SpreadOut, SharesWhatIsMissing) {
  EXPECT_THAT(
      SpreadOut(std::vector<double>{0, 0}, std::vector<double>{1, 1}, std::vector<double>{10}),
      testing::Pointwise(testing::DoubleNear(1e-9), std::vector<double>{-5, 5}));
  // The heavier one moves less.
  EXPECT_THAT(
      SpreadOut(std::vector<double>{0, 0}, std::vector<double>{3, 1}, std::vector<double>{8}),
      testing::Pointwise(testing::DoubleNear(1e-9), std::vector<double>{-2, 6}));
}

/// No small step of one place, or of a run of places, that keeps the distances comes nearer.
TEST(SpreadOut, IsNearest) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> place(0, 100), weight(0.1, 3), distance(0, 20);
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + static_cast<size_t>(round % 9);
    std::vector<double> wanted(n), weights(n), distances(n - 1);
    for (double& v : wanted) v = place(random);
    for (double& v : weights) v = weight(random);
    for (double& v : distances) v = distance(random);
    const std::vector<double> x = SpreadOut(wanted, weights, distances);
    const auto cost = [&](const std::vector<double>& at) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += weights[i] * std::pow(at[i] - wanted[i], 2);
      return sum;
    };
    const auto fits = [&](const std::vector<double>& at) {
      for (size_t i = 0; i + 1 < n; ++i)
        if (at[i + 1] - at[i] < distances[i] - 1e-9) return false;
      return true;
    };
    ASSERT_TRUE(fits(x));
    for (size_t from = 0; from < n; ++from)
      for (size_t to = from; to < n; ++to)
        for (const double step : {-0.01, 0.01}) {
          std::vector<double> moved = x;
          for (size_t i = from; i <= to; ++i) moved[i] += step;
          if (fits(moved)) {
            EXPECT_GE(cost(moved), cost(x) - 1e-9);
          }
        }
  }
}

TEST(LayOut, StandsAChainInALine) {
  LevelToLay level;
  level.widths = {100, 60, 100};
  level.wires = {{0, {1}}, {1, {2}}};
  const Rows rows = LayOut(level);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_NEAR(rows[0][0].x, rows[1][0].x, 1e-6);
  EXPECT_NEAR(rows[1][0].x, rows[2][0].x, 1e-6);
}

TEST(LayOut, BendsASkipOnceARow) {
  LevelToLay level;  // 0 -> 1 -> 2 -> 3, and 0 -> 3
  level.widths.assign(4, 80);
  level.wires = {{0, {1, 3}}, {1, {2}}, {2, {3}}};
  const Seen seen = CheckRows(level, LayOut(level));
  EXPECT_THAT(seen.bends[0], testing::ElementsAre(1, 2));
  EXPECT_THAT(seen.bends[1], testing::IsEmpty());
}

/// Two chains that are listed crosswise do not cross.
TEST(LayOut, UntanglesChains) {
  LevelToLay level;
  level.widths.assign(6, 80);
  level.wires = {{0, {3}}, {1, {2}}, {2, {5}}, {3, {4}}};
  const Rows rows = LayOut(level);
  const auto left = [&](size_t row, int a, int b) {
    double xa = 0, xb = 0;
    for (const Place& p : rows[row]) {
      if (p.box == a) xa = p.x;
      if (p.box == b) xb = p.x;
    }
    return xa < xb;
  };
  EXPECT_EQ(left(0, 0, 1), left(1, 3, 2));
  EXPECT_EQ(left(1, 3, 2), left(2, 4, 5));
}

TEST(LayOut, KeepsPortsAtTheEdges) {
  LevelToLay level;  // in -> a -> b -> out, and in -> b
  level.widths = {0, 80, 80, 0};
  level.first = {true, false, false, false};
  level.last = {false, false, false, true};
  level.wires = {{0, {1, 2}}, {1, {2}}, {2, {3}}};
  const Rows rows = LayOut(level);
  const Seen seen = CheckRows(level, rows);
  EXPECT_EQ(seen.row_of[0], 0);
  EXPECT_EQ(seen.row_of[3], static_cast<int>(rows.size()) - 1);
}

TEST(LayOut, TakesCyclesAndNothing) {
  EXPECT_TRUE(LayOut({}).empty());
  LevelToLay level;  // 0 -> 1 -> 2 -> 0
  level.widths.assign(3, 50);
  level.wires = {{0, {1}}, {1, {2}}, {2, {0}}};
  EXPECT_THAT(CheckRows(level, LayOut(level)).row_of, testing::ElementsAre(0, 1, 2));
}

TEST(LayOut, HoldsForRandomGraphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const int n = 2 + round;
    LevelToLay level;
    for (int i = 0; i < n; ++i) level.widths.push_back(40 + static_cast<double>(random() % 100));
    for (int i = 0; i + 1 < n; ++i) {
      Wire w{i, {}};
      for (unsigned k = 0; k < 1 + random() % 3; ++k)
        w.sinks.push_back(i + 1 + static_cast<int>(random() % static_cast<unsigned>(n - i - 1)));
      level.wires.push_back(w);
    }
    const Seen seen = CheckRows(level, LayOut(level));
    for (size_t w = 0; w < level.wires.size(); ++w) {
      const int from = seen.row_of[static_cast<size_t>(level.wires[w].source)];
      int lowest = from;
      for (const int s : level.wires[w].sinks) {
        EXPECT_GT(seen.row_of[static_cast<size_t>(s)], from);
        lowest = std::max(lowest, seen.row_of[static_cast<size_t>(s)]);
      }
      std::vector<int> between;
      for (int r = from + 1; r < lowest; ++r) between.push_back(r);
      EXPECT_EQ(seen.bends[w], between);
    }
  }
}

/// A net in which everything reads everything before has bends without end: the longest wires go
/// without.
TEST(LayOut, LimitsBends) {
  LevelToLay level;
  const int n = 300;
  level.widths.assign(n, 50);
  for (int i = 0; i + 1 < n; ++i) {
    Wire w{i, {}};
    for (int k = i + 1; k < n; ++k) w.sinks.push_back(k);
    level.wires.push_back(w);
  }
  size_t bends = 0;
  for (const auto& of_wire : CheckRows(level, LayOut(level)).bends) bends += of_wire.size();
  EXPECT_LE(bends, static_cast<size_t>(kMaxBendsPerBox * n + 1000));
  EXPECT_GT(bends, 1000u);
}

}  // namespace
}  // namespace infer
