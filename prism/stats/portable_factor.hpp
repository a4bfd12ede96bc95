// SPDX-License-Identifier: Apache-2.0
// Factors from exp and log, the same on every processor.
#pragma once

namespace prism {

/// To 24 bits: exp and log differ in the last bit from processor to processor, results must not.
constexpr double portable_factor(double factor) {
  return static_cast<double>(static_cast<float>(factor));
}

}  // namespace prism
