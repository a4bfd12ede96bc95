// SPDX-License-Identifier: Apache-2.0
#include "prism/report/run_info.hpp"

namespace prism {

std::string_view prism_version() {
  return PRISM_VERSION;
}

}  // namespace prism
