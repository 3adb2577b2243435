// loop_object.h: the variable `loop` inside a for loop.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/values/heap.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

struct Scope;
struct Statement;

// The state of a running for loop, as `loop` shows it.
struct LoopObject {
  std::span<const Value> items{};
  std::uint32_t index = 0;  // from 0
  int depth = 0;            // of recursion, from 0
  Value last_changed{};     // what changed() was called with last time, a tuple
  bool has_changed = false;
  const Statement* statement = nullptr;  // the loop, when it is recursive
  Scope* scope = nullptr;                // around it
};

Value loop_attribute(Heap& heap, LoopObject& loop, std::string_view name);

}  // namespace espalier::jinja
