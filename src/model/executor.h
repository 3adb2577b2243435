// executor.h: who carries out programs: the CPU's team, or a device (device/backend.h).
//
// Threads: one caller at a time. Fails: lower() for lack of memory, or with what the back end cannot compute; forward() throws
// DeviceFailure where a device fails in the middle of a step.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/error.h"
#include "model/batch.h"

namespace espalier {

class AdapterElsewhere;
class LoraAdapter;
struct Loaded;
struct Program;

// A device did not do what it was asked.
class DeviceFailure : public std::runtime_error {
 public:
  explicit DeviceFailure(const std::string& why) : std::runtime_error(why) {}
};

// What a device gave; else throws DeviceFailure with its words.
template <class T>
T given_by_device(Result<T> done) {
  if (!done.ok()) throw DeviceFailure(done.error().message);
  return std::move(done).value();
}

// A program that can be carried out.
class Executor {
 public:
  virtual ~Executor() = default;
  // All as Model has it; logits are the program's output where it has one.
  virtual std::span<float> forward(const Batch& batch, const KvView& kv) = 0;
  virtual void logits_again(int row, int first, std::span<float> out) const = 0;
  virtual bool overlaps() const { return false; }
  virtual void begin_forward(const Batch& /*batch*/, const KvView& /*kv*/) {}
  virtual std::span<float> end_forward() { return {}; }
  virtual bool draws() const { return false; }
  virtual void draw(std::span<const RowDraw> /*draws*/, std::span<DrawnToken> /*drawn*/) {}
};

// Makes programs executable. `program` and `loaded` outlive what is made of them.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<std::unique_ptr<Executor>> lower(const Program& program, Loaded& loaded, int max_rows) = 0;
  // Memory, zeros, for keys and values that its programs keep. Fails: out_of_memory.
  virtual Result<std::shared_ptr<std::byte>> room(std::size_t bytes) = 0;
  // What it needs of an adapter to compute with it (model/adapters/adapter.h), as long as the adapter lives; null: nothing. Any
  // thread, also while it computes. Fails: out_of_memory.
  virtual Result<std::shared_ptr<const AdapterElsewhere>> send(const LoraAdapter& adapter) = 0;
};

// The CPU's.
Backend& cpu_backend();

}  // namespace espalier
