// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/effect_findings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace prism {

namespace {

constexpr double kContentCoupling = 0.9;
constexpr double kContentSpread = 0.05;

struct Range {
  double low = 0;
  double high = 0;
};

template <class Value>
Range range_of(const std::vector<ClassComponents>& components, const Value& value) {
  Range range{value(components.front()), value(components.front())};
  for (const ClassComponents& c : components) {
    range.low = std::min(range.low, value(c));
    range.high = std::max(range.high, value(c));
  }
  return range;
}

std::string percent(Range range) {
  char text[64];
  if (range.high - range.low < 0.001) {
    std::snprintf(text, sizeof text, "%.1f %%", 100 * range.high);
  } else {
    std::snprintf(text, sizeof text, "%.1f to %.1f %%", 100 * range.low, 100 * range.high);
  }
  return text;
}

template <class Present>
bool in_half(const std::vector<ClassComponents>& components, const Present& present) {
  return 2 * static_cast<std::size_t>(std::ranges::count_if(components, present)) >= components.size();
}

}  // namespace

std::vector<std::string> describe_effects(const StepModel& model, const StepEffects& effects,
                                          double coupling) {
  std::vector<std::string> findings;
  const auto& parts = effects.components;
  if (parts.empty()) return findings;
  if (in_half(parts, [](const ClassComponents& c) { return c.tests.step > c.tests.step_limit; })) {
    findings.push_back("compute of all replicas is slow or fast together from step to step (" +
                       percent(range_of(parts, [](const auto& c) { return c.step_sd; })) +
                       " spread): a common clock, power or thermal effect");
  }
  if (in_half(parts, [](const ClassComponents& c) { return c.tests.rank > c.tests.rank_limit; })) {
    findings.push_back("ranks differ lastingly (" +
                       percent(range_of(parts, [](const auto& c) { return c.rank_sd; })) +
                       " spread by op class over " + std::to_string(model.replicas * model.cells) +
                       (model.cells > 1 ? " ranks" : " replicas") + "): some ranks are slower than others");
  }
  const Range residual = range_of(parts, [](const auto& c) { return c.residual_sd; });
  if (coupling >= kContentCoupling && residual.high >= kContentSpread) {
    findings.push_back(
        "forward and backward of a microbatch are slow together on all stages (" + percent(residual) +
        " spread between microbatches): uneven content, such as sequence lengths, drives the step");
  }
  if (findings.empty() && model.replicas > 1 && std::isfinite(coupling)) {
    findings.emplace_back("no effect stands out: compute varies independently by op");
  } else if (findings.empty()) {
    findings.emplace_back("effects cannot be told apart: that takes several replicas and known microbatches");
  }
  return findings;
}

}  // namespace prism
