// SPDX-License-Identifier: Apache-2.0
// Writes a pass program op by op. Internal to the pass programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "prism/plan/pass_program.hpp"

namespace prism {

/// Keeps the end of the data's way through the pass: what the next op waits for unless it says otherwise.
class ProgramWriter {
 public:
  /// Appends a compute op on the data's way; nothing if there are no kernels.
  void compute(const std::string& name, std::vector<Kernel> kernels, std::vector<int> also_after = {}) {
    if (kernels.empty()) return;
    also_after.push_back(tail_);
    program_.ops.push_back(
        {.name = name, .kernels = std::move(kernels), .after = std::move(also_after), .layer = layer_});
    tail_ = last();
  }
  /// Appends a compute op beside the data's way, after `after`.
  void compute_aside(const std::string& name, std::vector<Kernel> kernels, std::vector<int> after) {
    if (kernels.empty()) return;
    program_.ops.push_back(
        {.name = name, .kernels = std::move(kernels), .after = std::move(after), .layer = layer_});
  }
  /// Appends communication on the data's way.
  void communicate(const std::string& name, const Communication& communication) {
    communicate_aside(name, communication, {tail_});
    tail_ = last();
  }
  /// Appends communication beside it.
  int communicate_aside(const std::string& name, const Communication& communication, std::vector<int> after,
                        When when = When::Always) {
    program_.ops.push_back({.name = name,
                            .communication = communication,
                            .after = std::move(after),
                            .when = when,
                            .layer = layer_});
    return last();
  }

  void set_layer(std::int64_t layer) { layer_ = static_cast<std::int32_t>(layer); }
  [[nodiscard]] int tail() const { return tail_; }
  [[nodiscard]] int last() const { return static_cast<int>(program_.ops.size()) - 1; }
  /// The last compute op so far; kPassInput if there is none.
  [[nodiscard]] int last_compute() const {
    for (int i = last(); i >= 0; --i) {
      if (!program_.ops[static_cast<std::size_t>(i)].communication) return i;
    }
    return kPassInput;
  }
  /// The result is what the data's way ends with.
  [[nodiscard]] PassProgram take() {
    program_.output = tail_;
    return std::move(program_);
  }

 private:
  PassProgram program_;
  int tail_ = kPassInput;
  std::int32_t layer_ = -1;
};

}  // namespace prism
