// SPDX-License-Identifier: Apache-2.0
// Draws: a sampling model bound to a step model, as data the sweep can use.
//
// Every rule ends in an index into a pool. What is common to many nodes (the profiled step k*, a replica's
// cell and its microbatch order) becomes index rows that are filled once per block and replica; what is a
// node's own (an independent draw) is marked for the kernel, which makes the random words itself.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "prism/engine/microbatch_order.hpp"
#include "prism/engine/sweep_kernel.hpp"
#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"

namespace prism {

/// How one node draws, before it is placed in a program.
struct NodeDraw {
  Draw draw = Draw::None;
  std::uint64_t pool = 0;
  std::uint32_t pool_stride = 0;
  std::uint32_t pool_size = 0;
  std::uint32_t row = 0;
  std::uint32_t factor = 0;
  ReplicaGroup share;
};

class Draws {
 public:
  /// Keeps references to `model` and `effects`. Throws InputError if the rule needs profiled steps and there
  /// are none.
  Draws(const StepModel& model, Sampling sampling, const StepEffects& effects);

  [[nodiscard]] const NodeDraw& of(NodeId node) const { return nodes_[node]; }
  [[nodiscard]] std::size_t row_count() const { return rows_.size(); }
  [[nodiscard]] std::size_t factor_count() const { return factor_classes_.size(); }

  /// Whether the node reads rows of its replica's own cell; the others are common to all replicas of a
  /// sample.
  [[nodiscard]] bool reads_own_rows(NodeId node) const;
  [[nodiscard]] bool has_own_rows() const { return sampling_ == Sampling::Hierarchical; }

  /// One sample's values for one replica: rows[row], factors[factor].
  struct Cell {
    std::vector<std::int32_t> rows;
    std::vector<double> factors;
  };
  [[nodiscard]] Cell cell(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica) const;

  /// The same values for the 32 samples of a block, [row][lane] and [factor][lane], with scratch memory.
  struct Block {
    std::vector<std::int32_t> rows;
    std::vector<double> factors;
    std::vector<std::int32_t> order;
    OrderScratch scratch;
  };
  /// Rows that all replicas share.
  void fill_common(std::uint32_t seed, std::uint32_t block, Block& out) const;
  /// Rows and factors of one replica's own cell; needs fill_common of the block before.
  void fill_own(std::uint32_t seed, std::uint32_t block, std::uint32_t replica, Block& out) const;

 private:
  enum class RowKind : std::uint8_t { Common, Cell };
  struct Row {
    RowKind kind = RowKind::Common;
    std::uint32_t members = 1;
    std::uint32_t member = 0;
    bool reordered = false;
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  std::uint32_t row(Row wanted);
  NodeDraw draw_of(const Node& node);
  NodeDraw compute_draw(const Node& node, NodeDraw draw);
  NodeDraw other_draw(const Node& node, NodeDraw draw);
  std::uint32_t factor_of(ClassId id);
  /// exp(a (S[common] - S[own])): the step effect exchanged.
  [[nodiscard]] double factor(std::size_t f, std::uint32_t common, std::uint32_t own) const;
  [[nodiscard]] std::uint32_t common_step(std::uint32_t word, std::uint32_t sample) const;

  const StepModel& model_;
  Sampling sampling_;
  const StepEffects& effects_;
  double share_ = 1;
  std::uint32_t microbatches_ = 1;
  IdVector<NodeId, NodeDraw> nodes_;
  std::vector<Row> rows_;
  std::map<Row, std::uint32_t> row_index_;
  std::map<ClassId, std::uint32_t> factor_index_;
  std::vector<ClassId> factor_classes_;
  std::vector<std::vector<double>> raise_;  // [factor][k]: exp(a S[k]), the effect of step k put in
  std::vector<std::vector<double>> lower_;  // [factor][k]: exp(-a S[k]), taken out
};

}  // namespace prism
