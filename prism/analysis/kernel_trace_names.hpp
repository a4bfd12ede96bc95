// SPDX-License-Identifier: Apache-2.0
// What PyTorch and NCCL call the communication that a simulated trace holds.
#pragma once

#include <string>

#include "prism/kernels/split_collectives.hpp"

namespace prism {

/// The "Collective name" of records, "_allgather_base"; empty for what has none.
const char* record_name(CollectiveKind kind);

/// A kernel of that kind, algorithm and protocol, "ncclDevKernel_AllGather_RING_LL".
std::string communication_kernel_name(const CommunicationPool& pool);

}  // namespace prism
