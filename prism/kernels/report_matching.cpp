// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/report_matching.hpp"

#include <array>
#include <cstdio>
#include <string>
#include <utility>

namespace prism {

namespace {

constexpr double kNanosPerMilli = 1e6;

/// "rank4.json: all-gather, 12.345 ms after its first GPU op".
std::string place_text(const RankTrace& trace, const CommunicationOp& op) {
  const double since_first =
      static_cast<double>(trace.gpu_ops[op.gpu_op].start_ns - trace.gpu_ops.front().start_ns) /
      kNanosPerMilli;
  char time[32];
  std::snprintf(time, sizeof time, "%.3f ms", since_first);
  return trace.source.substr(trace.source.find_last_of('/') + 1) + ": " +
         std::string(collective_kind_name(op.kind)) + ", " + time + " after its first GPU op";
}

bool is_loss(LocalReason reason) {
  return reason != LocalReason::Untraced && reason != LocalReason::PartnerMissing &&
         reason != LocalReason::Copy;
}

}  // namespace

std::string_view local_reason_text(LocalReason reason) {
  switch (reason) {
    case LocalReason::Untraced:
      return "no other rank of its group is traced";
    case LocalReason::PartnerMissing:
      return "a rank of its group did not record it";
    case LocalReason::Odd:
      return "its size or time contradicts the other ranks'";
    case LocalReason::Ambiguous:
      return "the recordings do not say what it belongs to";
    case LocalReason::PeerUnknown:
      return "the peer rank is not recorded";
    case LocalReason::GroupUnknown:
      return "its group is not recorded";
    case LocalReason::Copy:
      return "a copy between devices";
  }
  return "";
}

void report_matching(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
                     const CollectiveMatching& matching, ImportReport& report) {
  constexpr std::array<std::pair<MatchEvidence, const char*>, 3> kEvidence = {
      {{MatchEvidence::Sequence, "communication matched across ranks by its number"},
       {MatchEvidence::MetadataOrder, "communication matched across ranks by metadata and order"},
       {MatchEvidence::KernelOrder, "communication matched across ranks by kernel and order"}}};
  for (const auto& [evidence, reason] : kEvidence) {
    if (const std::size_t count = matching.count(evidence); count > 0) {
      report.add({Severity::Info, reason, count, {}});
    }
  }
  for (const LocalOp& local : matching.local) {
    report.add(is_loss(local.reason) ? Severity::DataLoss : Severity::Info,
               "communication left to its rank alone: " + std::string(local_reason_text(local.reason)),
               place_text(traces[local.op.trace], communication[local.op.trace].ops[local.op.op]));
  }
}

}  // namespace prism
