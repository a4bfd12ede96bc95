// SPDX-License-Identifier: Apache-2.0
// The promise of prism/trace/ids.hpp: ids of two kinds do not mix. Compiled once as it is, which must work,
// and once with each MIX_... defined, which must not.
#include "prism/trace/ids.hpp"

namespace prism {

double right(const IdVector<NodeId, double>& finish, NodeId node) {
  return finish[node] + finish[NodeId(3)];
}

bool earlier(NodeId a, NodeId b) {
  return a < b;
}

#if defined(MIX_INDEX)
double wrong(const IdVector<NodeId, double>& finish, ClassId id) {
  return finish[id];
}
#elif defined(MIX_PLAIN_INDEX)
double wrong(const IdVector<NodeId, double>& finish, unsigned id) {
  return finish[id];
}
#elif defined(MIX_COMPARISON)
bool wrong(NodeId a, ClassId b) {
  return a == b;
}
#elif defined(MIX_ASSIGNMENT)
NodeId wrong(ClassId id) {
  return id;
}
#elif defined(MIX_NUMBER)
NodeId wrong() {
  return 3;
}
#endif

}  // namespace prism
