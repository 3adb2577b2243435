#include "ranks/links/own_hello.h"

#include <unistd.h>

#include "ranks/ending.h"

namespace espalier::ranks {

Hello own_hello(const RankPlan& plan, const GroupOptions& options) {
  Hello hello;
  hello.node = plan.node;
  hello.nodes = plan.nodes;
  hello.size = plan.size;
  hello.pid = ::getpid();
  hello.has_secret = !options.secret.empty();
  hello.max_part_bytes = options.max_part_bytes;
  hello.nonce = random_nonce();
  hello.version = options.version;
  hello.key = options.key;
  hello.host = own_host();
  return hello;
}

}  // namespace espalier::ranks
