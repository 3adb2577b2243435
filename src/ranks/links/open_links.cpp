#include "ranks/links/open_links.h"

#include <utility>

#include "ranks/links/own_hello.h"
#include "ranks/mpi/mpi_links.h"
#include "ranks/tcp/meeting.h"
#include "ranks/tcp/tcp_links.h"

namespace espalier::ranks {
namespace {

Result<std::unique_ptr<Links>> open_tcp(const RankPlan& plan, const GroupOptions& options,
                                        const std::function<bool()>& stop) {
  MeetingOptions meeting;
  meeting.hello = own_hello(plan, options);
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
  if (plan.links == LinkKind::tcp) return open_tcp(plan, options, stop);
  ESP_TRY(auto links, MpiLinks::open(plan, options));
  return std::unique_ptr<Links>(std::move(links));
}

}  // namespace espalier::ranks
