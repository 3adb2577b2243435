// meeting.h: how nodes find each other: node 0 listens, the others call it and say where they listen, node 0 tells all where all
// are, each calls those before it, and when all are connected with all, node 0 lets them go.
//
// Two connections for each pair: control (frames.h) and data. Who is missing is logged every 10 s. Whoever greets wrongly is turned
// away with a word, and waited for again; a rank that belongs here but was started otherwise ends the meeting in all nodes.
// Threads: one. Units: milliseconds. Fails: cannot_bind, network, timeout, bad_request, unauthorized.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sockets/addresses.h"
#include "ranks/tcp/greeting.h"

namespace espalier::ranks {

// What a node brings.
struct MeetingOptions {
  Hello hello;  // with everything but role, nonce and port
  std::string secret;
  HostAndPort where;  // node 0 listens there
  std::chrono::milliseconds limit{};
  std::function<bool()> stop;  // give up: this node has ended
};

// Another node, connected.
struct MetNode {
  FrameSocket control;
  UniqueFd data;
  int pid = 0;
  std::string host;
};

// All nodes by their number; our own is empty.
Result<std::vector<MetNode>> meet(const MeetingOptions& options);

}  // namespace espalier::ranks
