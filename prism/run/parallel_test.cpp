// SPDX-License-Identifier: Apache-2.0
#include "prism/run/parallel.hpp"

#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace prism {
namespace {

TEST(ParallelFor, VisitsEveryItemOnce) {
  for (const unsigned threads : {1U, 2U, 7U}) {
    std::vector<int> visits(1000, 0);
    parallel_for(visits.size(), {.threads = threads}, [&](std::size_t item, std::size_t worker) {
      ASSERT_LT(worker, threads);
      ++visits[item];
    });
    EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), 1000);
    EXPECT_EQ(*std::min_element(visits.begin(), visits.end()), 1);
  }
}

TEST(ParallelFor, NoItemsIsFine) {
  parallel_for(0, {}, [](std::size_t, std::size_t) { FAIL(); });
}

TEST(ParallelFor, RethrowsAndStops) {
  EXPECT_THROW(parallel_for(100, {.threads = 3},
                            [](std::size_t item, std::size_t) {
                              if (item == 5) throw std::runtime_error("five");
                            }),
               std::runtime_error);
}

TEST(ParallelFor, CancelsBetweenItems) {
  std::atomic<bool> cancelled{false};
  std::atomic<int> done{0};
  EXPECT_THROW(parallel_for(1000, {.threads = 2, .cancelled = &cancelled},
                            [&](std::size_t, std::size_t) {
                              if (++done == 10) cancelled = true;
                            }),
               Cancelled);
  EXPECT_LT(done.load(), 20);
}

TEST(ParallelFor, ReportsProgressUpToOne) {
  double last = 0;
  parallel_for(10, {.threads = 1, .progress = [&](double share) { last = share; }},
               [](std::size_t, std::size_t) {});
  EXPECT_DOUBLE_EQ(last, 1.0);
}

}  // namespace
}  // namespace prism
