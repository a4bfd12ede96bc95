// SPDX-License-Identifier: Apache-2.0
// A property that a fuzz harness checks: aborts with the text if it does not hold, also in builds without
// assertions.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace prism::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz property violated: %s\n", what);
  std::abort();
}

}  // namespace prism::fuzz
