// SPDX-License-Identifier: Apache-2.0
// The passes of one pipeline rank as a schedule's rule hands them out. Internal to the schedules.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "prism/plan/schedule.hpp"

namespace prism {

/// A stream of microbatches through one chunk of a rank: which virtual stage of which copy it is, and its
/// microbatches.
struct Flow {
  std::int32_t stage = 0;
  std::int32_t copy = 0;
  std::int32_t first = 0;  ///< microbatches [first, first + count)
  std::int32_t count = 0;
};

/// Two flows through one rank (the chunks of a V, or the directions of DualPipe), each in the order of its
/// microbatches. Passes beyond the last microbatch are left out, so that rules may be written for more
/// microbatches than there are.
class TwoFlows {
 public:
  TwoFlows(Flow zero, Flow one) : flows_{zero, one} {}

  void forward(int flow) { emit(PassKind::Forward, flow, forwards_[at(flow)]++); }
  /// Input and weight gradients together.
  void backward(int flow) { emit(PassKind::Backward, flow, backwards_[at(flow)]++); }
  /// Input gradients; the weight gradients are queued.
  void input(int flow) {
    const std::int32_t index = backwards_[at(flow)]++;
    emit(PassKind::BackwardInput, flow, index);
    due_[at(flow)].push_back({.turn = inputs_++, .index = index});
  }
  /// The oldest queued weight gradients, if there are any.
  void weight() {
    if (due_[0].empty() && due_[1].empty()) return;
    const bool second = due_[0].empty() || (!due_[1].empty() && due_[1].front().turn < due_[0].front().turn);
    weight(second ? 1 : 0);
  }
  /// The oldest queued weight gradients of one flow, if there are any.
  void weight(int flow) {
    std::deque<Due>& due = due_[at(flow)];
    if (due.empty()) return;
    emit(PassKind::BackwardWeight, flow, due.front().index);
    due.pop_front();
  }
  /// A forward of one flow overlapped with a backward of the other.
  void overlapped(int forward_flow, int backward_flow) {
    forward(forward_flow);
    order_.back().with_next = true;
    backward(backward_flow);
  }

  [[nodiscard]] std::int32_t forwards(int flow) const { return forwards_[at(flow)]; }
  [[nodiscard]] std::vector<Pass> take() { return std::move(order_); }

 private:
  /// Weight gradients that a backward for inputs has left to do.
  struct Due {
    std::int64_t turn = 0;  ///< of the backward among those of both flows
    std::int32_t index = 0;
  };

  static std::size_t at(int flow) { return static_cast<std::size_t>(flow); }
  void emit(PassKind kind, int flow, std::int32_t index) {
    const Flow& f = flows_[at(flow)];
    if (index < f.count)
      order_.push_back({.kind = kind, .stage = f.stage, .microbatch = f.first + index, .copy = f.copy});
  }

  std::array<Flow, 2> flows_;
  std::array<std::int32_t, 2> forwards_{};
  std::array<std::int32_t, 2> backwards_{};
  std::array<std::deque<Due>, 2> due_;
  std::int64_t inputs_ = 0;
  std::vector<Pass> order_;
};

}  // namespace prism
