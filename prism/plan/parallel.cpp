// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/parallel.hpp"

namespace prism {

std::string_view schedule_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::GPipe:
      return "gpipe";
    case ScheduleKind::OneForwardOneBackward:
      return "1f1b";
    case ScheduleKind::Interleaved:
      return "interleaved";
    case ScheduleKind::ZeroBubbleH1:
      return "zb-h1";
    case ScheduleKind::ZeroBubbleV:
      return "zb-v";
    case ScheduleKind::DualPipe:
      return "dualpipe";
    case ScheduleKind::DualPipeV:
      return "dualpipe-v";
    case ScheduleKind::Table:
      break;
  }
  return "table";
}

}  // namespace prism
