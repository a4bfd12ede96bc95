// SPDX-License-Identifier: Apache-2.0
#include "prism/model/clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "prism/model/least_absolute_clocks.hpp"
#include "prism/model/op_graph.hpp"

namespace prism {

namespace {

constexpr double kMinCorrectedNs = 2e6;
constexpr double kNoiseMultiple = 5;
constexpr double kSdFromMad = 1.4826;  // of a normal law
constexpr double kAgreementNs = 20e3;  // edges closer than this to the solution weigh the same

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

class Estimator {
 public:
  explicit Estimator(const RecordedJob& job) : job_(job), clocks_(job.ranks.size()) {}

  /// Offsets of the ranks about their median, and the noise they stand out of: the typical scatter of one pair of ends
  /// (robust standard deviation). Nothing was matched: empty.
  struct Result {
    std::vector<double> offsets;
    double noise_ns = 0;
  };
  Result estimate(const OpGraph& graph) {
    for (const OpGroup& group : graph.groups) {
      if (group.spans_replicas) {
        observe_collective(group);
      } else if (group.members.size() == 2) {
        observe_pair(group);
      }
    }
    std::vector<ClockDifference> edges;
    std::vector<double> scatter;
    for (auto& [key, differences] : differences_) {
      const double middle = median(differences);
      edges.push_back({key.first, key.second, middle});
      for (double& difference : differences) difference = std::abs(difference - middle);
      scatter.push_back(kSdFromMad * median(std::move(differences)));
    }
    if (edges.empty()) return {};
    std::vector<double> solved = least_absolute_clocks(clocks_, edges, kAgreementNs);
    solved.resize(job_.ranks.size());
    const double middle = median(solved);
    for (double& offset : solved) offset -= middle;
    return {std::move(solved), median(std::move(scatter))};
  }

 private:
  std::size_t rank_of(OpId op, std::size_t replica) const {
    return replica * static_cast<std::size_t>(job_.stages()) + static_cast<std::size_t>(job_.ops[op].stage);
  }

  void observe_pair(const OpGroup& group) {
    for (std::size_t k = 0; k < job_.step_count(); ++k) {
      for (std::size_t d = 0; d < job_.replicas(); ++d) {
        const OpId a = group.members[0];
        const OpId b = group.members[1];
        differences_[{rank_of(a, d), rank_of(b, d)}].push_back(job_.end(a, k, d) - job_.end(b, k, d));
      }
    }
  }

  /// Members of a collective against the median member of the same step, which gets a clock of its own (a
  /// hub).
  void observe_collective(const OpGroup& group) {
    if (group.members.size() * job_.replicas() < 2) return;
    const std::size_t hub = clocks_++;
    std::vector<double> ends;
    for (std::size_t k = 0; k < job_.step_count(); ++k) {
      ends.clear();
      for (const OpId op : group.members) {
        for (std::size_t d = 0; d < job_.replicas(); ++d) ends.push_back(job_.end(op, k, d));
      }
      const double middle = median(ends);
      for (const OpId op : group.members) {
        for (std::size_t d = 0; d < job_.replicas(); ++d) {
          differences_[{rank_of(op, d), hub}].push_back(job_.end(op, k, d) - middle);
        }
      }
    }
  }

  const RecordedJob& job_;
  std::size_t clocks_;  // ranks, then hubs
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> differences_;
};

void shift_rank(RecordedJob& job, std::size_t rank, double offset_ns) {
  const auto stages = static_cast<std::size_t>(job.stages());
  for (std::size_t op = 0; op < job.ops.size(); ++op) {
    if (static_cast<std::size_t>(job.ops[OpId(op)].stage) != rank % stages) continue;
    for (std::size_t k = 0; k < job.step_count(); ++k) {
      const std::size_t at = job.index(OpId(op), k, rank / stages);
      job.start_ns[at] -= offset_ns;
      job.end_ns[at] -= offset_ns;
    }
  }
}

}  // namespace

std::vector<double> align_clocks(RecordedJob& job, ImportReport& report) {
  ImportReport structure;  // the same doubts are reported when the final graph is built
  auto [offsets, noise_ns] = Estimator(job).estimate(build_op_graph(job, structure));
  const double limit = std::max(kMinCorrectedNs, kNoiseMultiple * noise_ns);
  for (std::size_t rank = 0; rank < offsets.size(); ++rank) {
    if (std::abs(offsets[rank]) <= limit) continue;
    char text[96];
    std::snprintf(text, sizeof text, "rank %d by %.3f ms", job.ranks[rank], -offsets[rank] / 1e6);
    report.add(Severity::Repaired, "clock shifted: the rank's matched communication ends off the others'",
               text);
    shift_rank(job, rank, offsets[rank]);
  }
  return offsets;
}

}  // namespace prism
