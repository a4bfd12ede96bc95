// SPDX-License-Identifier: Apache-2.0
// The order of passes on one pipeline rank, by schedule: rank `rank` of `p`, `m` microbatches. Sizes have
// been checked (make_schedule).
#pragma once

#include <cstdint>
#include <vector>

#include "prism/plan/schedule.hpp"

namespace prism {

/// Huang et al. 2019 (arXiv 1811.06965): all forwards, then all backwards, both in order.
std::vector<Pass> gpipe_order(std::int32_t rank, std::int32_t m);

/// Narayanan et al. 2021 (arXiv 2104.04473), section 2.2: warm-up forwards, then one forward and one
/// backward in turn.
std::vector<Pass> one_f_one_b_order(std::int32_t rank, std::int32_t p, std::int32_t m);

/// The same, section 2.2.2, with `chunks` virtual stages per rank (stage c * p + rank), microbatches taken
/// in groups.
std::vector<Pass> interleaved_order(std::int32_t rank, std::int32_t p, std::int32_t m, std::int32_t chunks,
                                    std::int32_t group);

/// Qi et al. 2024 (arXiv 2401.10241), ZB-H1: 1F1B with weight gradients moved into the bubbles, at the
/// memory of 1F1B.
std::vector<Pass> zero_bubble_h1_order(std::int32_t rank, std::int32_t p, std::int32_t m);

/// Qi et al. 2024 (arXiv 2405.15362), ZB-V: two chunks per rank, stages rank and 2p - 1 - rank.
std::vector<Pass> zero_bubble_v_order(std::int32_t rank, std::int32_t p, std::int32_t m);

/// DeepSeek-AI 2024 (arXiv 2412.19437), DualPipe: two model copies; copy 0 runs microbatches 0 .. m/2-1
/// from rank 0 on, copy 1 the others from rank p-1 on.
std::vector<Pass> dualpipe_order(std::int32_t rank, std::int32_t p, std::int32_t m);

/// DualPipe folded into a V: one copy, stages rank and 2p - 1 - rank.
std::vector<Pass> dualpipe_v_order(std::int32_t rank, std::int32_t p, std::int32_t m);

}  // namespace prism
