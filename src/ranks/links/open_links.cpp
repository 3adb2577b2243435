#include "ranks/links/open_links.h"

#include <unistd.h>

#include <utility>

#include "ranks/ending.h"
#include "ranks/tcp/meeting.h"
#include "ranks/tcp/tcp_links.h"

namespace espalier::ranks {
namespace {

Result<std::unique_ptr<Links>> open_tcp(const RankPlan& plan, const GroupOptions& options,
                                        const std::function<bool()>& stop) {
  MeetingOptions meeting;
  meeting.hello.node = plan.node;
  meeting.hello.nodes = plan.nodes;
  meeting.hello.size = plan.size;
  meeting.hello.pid = ::getpid();
  meeting.hello.has_secret = !options.secret.empty();
  meeting.hello.max_part_bytes = options.max_part_bytes;
  meeting.hello.version = options.version;
  meeting.hello.key = options.key;
  meeting.hello.host = own_host();
  meeting.secret = options.secret;
  meeting.where = {plan.init_host, plan.init_port};
  meeting.limit = options.start_limit;
  meeting.stop = stop;
  ESP_TRY(auto nodes, meet(meeting));
  ESP_TRY(auto links, TcpLinks::make(plan, std::move(nodes), options.silence));
  return std::unique_ptr<Links>(std::move(links));
}

}  // namespace

Result<std::unique_ptr<Links>> open_links(const RankPlan& plan, const GroupOptions& options,
                                          const std::function<bool()>& stop) {
  return open_tcp(plan, options, stop);
}

}  // namespace espalier::ranks
