// SPDX-License-Identifier: Apache-2.0
// Progress with an estimate of what is left, on standard error, only if that is a terminal.
#pragma once

#include <functional>

namespace prism::cli {

/// A progress callback for RunControl; empty if standard error is no terminal. Safe to call from any thread.
std::function<void(double)> terminal_progress();

}  // namespace prism::cli
