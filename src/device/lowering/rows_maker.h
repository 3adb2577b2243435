// rows_maker.h: puts operations of rows into a device's stages: those that follow one another into one.
//
// Threads: one. Fails: never.
#pragma once

#include "device/lowering/buffers.h"
#include "device/stages/stages.h"

namespace espalier::device {

// The stage of rows that is open, and those that follow.
class RowsMaker {
 public:
  RowsMaker(ProgramBuffers& buffers, DeviceProgram& out) : buffers_(buffers), out_(out) {}

  void add(const DeviceRowOp& op) {
    buffers_.need_scratch(scratch_floats(op));
    stage().ops.push_back(to_bytes(op));
  }
  // An operation that is complete once addresses are known.
  void add_later(std::function<DeviceRowOp()> make) {
    RowsStage& open = stage();
    const std::size_t at = open.ops.size();
    open.ops.emplace_back();
    buffers_.fix([&open, at, make = std::move(make)] { open.ops[at] = to_bytes(make()); });
  }
  // What the host makes of each row; gives the number of these rows.
  int add_host_rows(int width, float first, std::function<bool(const Pass&, int, float*)> make, int marks = -1) {
    const int number = out_.memory.host_rows++;
    stage().makers.push_back({number, width, first, std::move(make), marks});
    return number;
  }
  int add_marks() { return out_.memory.marks++; }

  // Ends the open stage of rows and puts another one behind it.
  template <class S, class... A>
  S& push(A&&... arguments) {
    auto added = std::make_unique<S>(std::forward<A>(arguments)...);
    S& stage = *added;
    open_ = nullptr;
    out_.stages.push_back(std::move(added));
    return stage;
  }
  // The same of a stage that is made once addresses are known.
  void push_later(std::function<std::unique_ptr<DeviceStage>()> make) {
    open_ = nullptr;
    const std::size_t at = out_.stages.size();
    out_.stages.emplace_back();
    buffers_.fix([this, at, make = std::move(make)] { out_.stages[at] = make(); });
  }

 private:
  RowsStage& stage() {
    if (open_ != nullptr) return *open_;
    RowsStage& opened = push<RowsStage>();
    open_ = &opened;
    return opened;
  }

  ProgramBuffers& buffers_;
  DeviceProgram& out_;
  RowsStage* open_ = nullptr;
};

}  // namespace espalier::device
