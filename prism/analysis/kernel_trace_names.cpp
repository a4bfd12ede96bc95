// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/kernel_trace_names.hpp"

#include <algorithm>

namespace prism {

const char* record_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "allreduce";
    case CollectiveKind::AllGather:
      return "_allgather_base";
    case CollectiveKind::ReduceScatter:
      return "_reduce_scatter_base";
    case CollectiveKind::Broadcast:
      return "broadcast";
    case CollectiveKind::Reduce:
      return "reduce";
    case CollectiveKind::AllToAll:
      return "all_to_all";
    case CollectiveKind::Gather:
      return "gather";
    case CollectiveKind::Scatter:
      return "scatter";
    case CollectiveKind::Barrier:
      return "barrier";
    case CollectiveKind::Send:
      return "send";
    case CollectiveKind::Recv:
      return "recv";
    case CollectiveKind::SendRecv:
      return "batch_isend_irecv";
    default:
      return "";
  }
}

std::string communication_kernel_name(const CommunicationPool& pool) {
  std::string name = "ncclDevKernel_";
  switch (pool.kind) {
    case CollectiveKind::AllReduce:
      name += "AllReduce";
      break;
    case CollectiveKind::AllGather:
      name += "AllGather";
      break;
    case CollectiveKind::ReduceScatter:
      name += "ReduceScatter";
      break;
    case CollectiveKind::Broadcast:
      name += "Broadcast";
      break;
    case CollectiveKind::Reduce:
      name += "Reduce";
      break;
    case CollectiveKind::Unknown:
      name += "Generic";
      break;
    default:
      name += "SendRecv";
  }
  if (!pool.kernel.empty()) name += "_" + pool.kernel;
  std::ranges::replace(name, ' ', '_');
  return name;
}

}  // namespace prism
