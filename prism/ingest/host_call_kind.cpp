// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/host_call_kind.hpp"

#include <array>
#include <utility>

namespace prism {

namespace {

constexpr std::array<std::pair<std::string_view, HostCallKind>, 12> kKinds = {{
    {"StreamSynchronize", HostCallKind::StreamSync},
    {"DeviceSynchronize", HostCallKind::DeviceSync},
    {"CtxSynchronize", HostCallKind::DeviceSync},
    {"EventSynchronize", HostCallKind::EventSync},
    {"EventRecord", HostCallKind::EventRecord},
    {"EventRecordWithFlags", HostCallKind::EventRecord},
    {"StreamWaitEvent", HostCallKind::StreamWait},
    {"EventQuery", HostCallKind::EventQuery},
    // MTIA
    {"synchronizeStream", HostCallKind::StreamSync},
    {"synchronize", HostCallKind::DeviceSync},
    {"recordEvent", HostCallKind::EventRecord},
    {"enqueueCommand waitOnEvent", HostCallKind::StreamWait},
}};

}  // namespace

std::optional<HostCallKind> host_call_kind(std::string_view name) {
  for (const std::string_view vendor : {"cuda", "cu", "hip"}) {
    if (name.starts_with(vendor)) {
      name.remove_prefix(vendor.size());
      break;
    }
  }
  // Versions of one function: cuStreamWaitEvent_ptsz, cuEventRecord_v2.
  if (const std::size_t version = name.find('_'); version != std::string_view::npos)
    name = name.substr(0, version);
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

}  // namespace prism
