// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "prism/plan/collective_cost.hpp"

namespace prism {

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool is_of(const MeasuredCollectives::Point& p, CollectiveOp kind, std::int64_t ranks, std::int64_t hosts) {
  return p.kind == kind && p.ranks == ranks && p.hosts == hosts;
}

}  // namespace

void MeasuredCollectives::add(const Point& point) {
  points_.push_back(point);
}

void MeasuredCollectives::add(const MeasuredCollectives& other) {
  points_.insert(points_.end(), other.points_.begin(), other.points_.end());
}

std::optional<double> MeasuredCollectives::time_ns(CollectiveOp kind, double bytes, std::int64_t ranks,
                                                   std::int64_t hosts) const {
  std::map<double, std::vector<double>> by_size;
  for (const Point& p : points_) {
    if (is_of(p, kind, ranks, hosts)) by_size[p.bytes].push_back(p.ns);
  }
  if (by_size.empty()) return std::nullopt;
  const auto above = by_size.lower_bound(bytes);
  if (above == by_size.begin()) return median(above->second);
  const auto below = std::prev(above);
  const double low = median(below->second);
  if (above == by_size.end()) return low * bytes / below->first;
  const double share = std::log(bytes / below->first) / std::log(above->first / below->first);
  return std::exp(std::log(low) + share * (std::log(median(above->second)) - std::log(low)));
}

std::vector<double> MeasuredCollectives::spread(CollectiveOp kind, double bytes, std::int64_t ranks,
                                                std::int64_t hosts) const {
  std::map<double, std::map<std::string, std::vector<double>>> by_size;
  for (const Point& p : points_) {
    if (is_of(p, kind, ranks, hosts)) by_size[p.bytes][p.group].push_back(p.ns);
  }
  if (by_size.empty()) return {};
  auto at = by_size.upper_bound(bytes);
  if (at != by_size.begin()) --at;
  std::vector<double> times;
  for (const auto& [group, values] : at->second) times.push_back(median(values));
  if (times.size() < 3) return {};
  const double middle = median(times);
  for (double& t : times) t /= middle;
  std::ranges::sort(times);
  return times;
}

std::vector<double> MeasuredCollectives::network_spread() const {
  std::map<std::tuple<CollectiveOp, std::int64_t, std::int64_t>, double> largest;
  for (const Point& p : points_) {
    if (p.hosts < 2) continue;
    double& bytes = largest[{p.kind, p.ranks, p.hosts}];
    bytes = std::max(bytes, p.bytes);
  }
  std::vector<double> widest;
  for (const auto& [form, bytes] : largest) {
    std::vector<double> found = spread(std::get<0>(form), bytes, std::get<1>(form), std::get<2>(form));
    if (found.size() > widest.size()) widest = std::move(found);
  }
  return widest;
}

}  // namespace prism
