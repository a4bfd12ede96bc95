// SPDX-License-Identifier: Apache-2.0
// Draws: a sampling model bound to a step model, as data the sweep can use.
//
// Every rule ends in an index into a pool. What is common to many nodes (the profiled step k*, a cell's own
// step and its replica's microbatch order) becomes index rows that are filled once per block, or once per
// block, replica and segment; what is a node's own (an independent draw) is marked for the kernel, which
// makes the random words itself. A row holds where a step begins in pools of so many members: the member is
// part of the node's pool address, so that thousands of nodes share a handful of rows.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "prism/engine/composed_factors.hpp"
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
  double sigma = 0;
};

class Draws {
 public:
  /// Keeps references to `model` and `effects`. Throws InputError if the rule needs profiled steps and there
  /// are none.
  Draws(const StepModel& model, Sampling sampling, const StepEffects& effects);

  [[nodiscard]] const NodeDraw& of(NodeId node) const { return nodes_[node]; }
  [[nodiscard]] std::size_t row_count() const { return rows_.size(); }
  /// Those of exchanged step effects first, then the rows of composed durations.
  [[nodiscard]] std::size_t factor_count() const { return factors_.size() + composed_.row_count(); }

  /// Rows and factors that differ from replica to replica, ascending; the other rows are common to all
  /// replicas of a sample.
  struct OwnUse {
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> factors;   ///< of exchanged step effects
    std::vector<std::uint32_t> composed;  ///< rows of composed durations
    [[nodiscard]] bool empty() const { return rows.empty() && factors.empty() && composed.empty(); }
  };
  /// Those that some of the nodes read.
  [[nodiscard]] OwnUse own_use(std::span<const NodeId> nodes) const;

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
    std::vector<std::uint32_t> common;     ///< k* [lane]
    std::vector<std::uint32_t> own_steps;  ///< of the cells, [replica * cells + cell][lane]
    std::vector<std::int32_t> order;
    OrderScratch scratch;
    ComposedFactors::Scratch composed;
  };
  /// Rows that all replicas share, and the steps of all cells.
  void fill_common(std::uint32_t seed, std::uint32_t block, Block& out) const;
  /// Whether all that differs between replicas are rows of composed durations: then those of a replica may be kept from
  /// segment to segment.
  [[nodiscard]] bool only_composed() const {
    return rows_.empty() && factors_.empty() && composed_.row_count() > 0;
  }
  /// With only_composed: all factor rows of one replica, at `out`.
  void fill_replica(std::uint32_t seed, std::uint32_t block, std::uint32_t replica,
                    ComposedFactors::Scratch& scratch, double* out) const;
  /// The rows and factors of `use` for one replica; needs fill_common of the block before.
  void fill_own(std::uint32_t seed, std::uint32_t block, std::uint32_t replica, const OwnUse& use,
                Block& out) const;

 private:
  enum class RowKind : std::uint8_t { Common, Cell };
  struct Row {
    RowKind kind = RowKind::Common;
    std::uint32_t members = 1;
    std::uint32_t member = 0;  ///< of a reordered row; in others it is part of the pool's address
    bool reordered = false;
    std::uint32_t cell = 0;  ///< of the template
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  static constexpr std::uint32_t kNone = ~0U;
  struct Factor {
    std::uint32_t effect = kNone;  ///< into raise_ and lower_
    std::uint32_t cell = 0;        ///< of the template
    std::uint32_t rank = kNone;    ///< whose rank factor it holds
    friend auto operator<=>(const Factor&, const Factor&) = default;
  };
  std::uint32_t row(Row wanted);
  NodeDraw draw_of(const Node& node);
  NodeDraw composed_draw(const Node& node, NodeDraw draw);
  NodeDraw table(const Node& node, NodeDraw draw, RowKind kind, bool reordered);
  NodeDraw compute_draw(const Node& node, NodeDraw draw);
  NodeDraw other_draw(const Node& node, NodeDraw draw);
  /// The draw times the exchanged step effect and the factor of the rank, where there are such.
  NodeDraw scaled(const Node& node, NodeDraw draw);
  std::uint32_t effect_of(ClassId id);
  [[nodiscard]] std::uint32_t factor_rank(std::int32_t rank) const;
  /// exp(a (S[common] - S[own])), the step effect exchanged, times the rank's factor.
  [[nodiscard]] double factor(const Factor& f, std::uint32_t replica, std::uint32_t common,
                              std::uint32_t own) const;
  [[nodiscard]] std::uint32_t common_step(std::uint32_t word, std::uint32_t sample) const;
  /// One of the steps of the same kind as the common one.
  [[nodiscard]] std::uint32_t own_step(std::uint32_t word, std::uint32_t common) const;
  /// The key of a cell's random numbers.
  [[nodiscard]] std::uint32_t cell_key(std::uint32_t replica, std::uint32_t cell) const {
    return replica * model_.cells + cell;
  }

  const StepModel& model_;
  Sampling sampling_;
  const StepEffects& effects_;
  ComposedFactors composed_;
  bool many_cells_ = false;  ///< a cell's own step can differ from k*
  double share_ = 1;
  std::uint32_t microbatches_ = 1;
  IdVector<NodeId, NodeDraw> nodes_;
  std::vector<Row> rows_;
  std::map<Row, std::uint32_t> row_index_;
  std::vector<Factor> factors_;
  std::map<Factor, std::uint32_t> factor_index_;
  std::map<std::uint32_t, std::uint32_t> effect_index_;  // of a class, or of all (kNone)
  std::vector<std::vector<double>> raise_;               // [effect][k]: exp(a S[k]), the effect of k put in
  std::vector<std::vector<double>> lower_;               // [effect][k]: exp(-a S[k]), taken out
  std::vector<std::vector<std::uint32_t>> alike_;        // steps of a kind; empty: all are alike
  std::vector<std::uint32_t> kind_of_;                   // [k], into alike_
};

}  // namespace prism
