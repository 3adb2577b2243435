// node_steps.h: how a state carries out a program's own nodes: texts, turns, pictures, variables, scopes.
//
// Threads: whoever is at work in the state (stream_executor.h). Fails: what goes wrong is the state's error.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lang/execute/queue_item.h"

namespace espalier::lang {

// Changes a state's document, node by node.
class NodeSteps {
 public:
  explicit NodeSteps(StreamExecutor& state) : state_(state) {}

  Progress take(const node::Text& text);
  Progress take(const node::Argument& argument);
  Progress take(const node::RoleBegin& role);
  Progress take(const node::RoleEnd& role);
  Progress take(node::Media media);
  Progress take(const node::Variable& variable);
  Progress take(node::ScopeBegin scope);
  Progress take(const node::ScopeEnd& scope);
  Progress take(const node::Reasoning&) { return Progress::done; }  // was taken apart when it was queued
  Progress take(const ReasoningSplit& end);
  Progress take(node::MovableBegin) { return Progress::done; }
  Progress take(node::MovableEnd) { return Progress::done; }

 private:
  Progress append(const Result<Value>& value);
  Progress append(const Value& value);
  Progress append_own(const std::string& name);

  StreamExecutor& state_;
  std::vector<std::pair<std::string, std::size_t>> scopes_;  // open ones: name, where they began
};

}  // namespace espalier::lang
