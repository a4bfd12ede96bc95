// SPDX-License-Identifier: Apache-2.0
// The shared factors of composed durations, multiplied up: one row of 32 lanes for each set of factors that some node has.
//
// A term is one factor of one thing (a GPU, a host, a link, a microbatch, the step); a row is the product of its terms in
// the order of the class's factors. Rows are filled once per block, replica and segment; nodes only look them up.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "prism/engine/sweep_kernel.hpp"
#include "prism/model/step_model.hpp"

namespace prism {

class ComposedFactors {
 public:
  /// Keeps a reference to `model`.
  explicit ComposedFactors(const StepModel& model) : model_(model) {}

  /// The row of a composed node.
  std::uint32_t row_of(const Node& node);
  [[nodiscard]] std::size_t row_count() const { return rows_.size(); }

  /// A row's value in one sample for one replica.
  [[nodiscard]] double value(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica,
                             std::uint32_t row) const;

  /// Scratch memory of fill.
  struct Scratch {
    std::vector<std::array<double, kLanes>> terms;
    std::vector<bool> known;
  };
  /// The same for the 32 samples of a block, rows[i] at out[(first + rows[i]) * kLanes].
  void fill(std::uint32_t seed, std::uint32_t block, std::uint32_t replica,
            std::span<const std::uint32_t> rows, Scratch& scratch, double* out) const;

 private:
  /// What a factor belongs to, as the template sees it.
  struct Term {
    FactorId factor;
    std::uint32_t thing = 0;  ///< template rank, link or microbatch
    std::uint32_t group_size = 1;
    std::uint32_t group_stride = 1;
    std::uint32_t replica_offset = 0;
    friend auto operator<=>(const Term&, const Term&) = default;
  };
  struct Row {
    std::vector<std::uint32_t> terms;
    std::int64_t rank = -1;  ///< whose StepModel::rank_factors it holds; -1: none
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  [[nodiscard]] Term term_of(FactorId factor, const Node& node) const;
  /// The (id, replica) part of the random number's key.
  struct Key {
    std::uint64_t id = 0;
    std::uint32_t replica = 0;
  };
  [[nodiscard]] Key key_of(const Term& term, std::uint32_t replica) const;
  [[nodiscard]] double draw(const SharedFactor& factor, std::uint32_t word) const;
  [[nodiscard]] double rank_factor(const Row& row, std::uint32_t replica) const;

  const StepModel& model_;
  std::vector<Term> terms_;
  std::map<Term, std::uint32_t> term_index_;
  std::vector<Row> rows_;
  std::map<Row, std::uint32_t> row_index_;
};

}  // namespace prism
