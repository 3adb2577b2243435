// number_copier.h: one number for the keys and values of a token, a function of every token up to there, so that a
// single wrong slot is seen; for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cache/disk/disk_prefixes.h"
#include "cache/tree/recent_set.h"  // mix_bits

namespace espalier::testing {

using Value = std::uint64_t;

inline Value first_value(std::string_view scope) {
  return std::hash<std::string_view>{}(scope);
}
inline Value next_value(Value before, TokenId token) {
  return mix_bits(before * 31 + static_cast<std::uint32_t>(token) + 1);
}

// What the slots of a sequence's tokens must hold.
inline std::vector<Value> values_of(std::string_view scope, std::span<const TokenId> tokens) {
  std::vector<Value> values;
  Value value = first_value(scope);
  for (const TokenId token : tokens) values.push_back(value = next_value(value, token));
  return values;
}

// A SlotCopier over one number a token instead of keys and values, and a few a state.
class NumberCopier final : public SlotCopier {
 public:
  explicit NumberCopier(std::vector<Value>& pool) : pool_(pool) {}
  NumberCopier(std::vector<Value>& pool, std::vector<Value>& states, std::size_t values_each)
      : pool_(pool), states_(&states), each_(values_each) {}
  std::size_t state_bytes() const override { return states_ == nullptr ? 0 : each_ * sizeof(Value); }
  void copy_state_out(int cell, std::size_t from, std::span<std::byte> to) override {
    std::ranges::copy(state(cell).subspan(from, to.size()), to.begin());
  }
  void copy_state_in(int cell, std::size_t from, std::span<const std::byte> bytes) override {
    std::ranges::copy(bytes, state(cell).subspan(from).begin());
  }
  void copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) override {
    for (int i = 0; i < slots.length(); ++i)
      std::memcpy(place(blocks, stride, i), &pool_[static_cast<std::size_t>(slots.slot_at(i))], sizeof(Value));
  }
  // As a device does it: values leave the pool at once but come into blocks when settle() is called; blocks that values come
  // from must stand until then.
  void settle_late() { late_ = true; }
  void begin_copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) override {
    if (!late_) return copy_out(slots, blocks, stride);
    Late copy{blocks, blocks, std::vector<std::byte>(blocks.begin(), blocks.end())};
    copy_out(slots, copy.bytes, stride);
    copies_.push_back(std::move(copy));
  }
  void begin_copy_in(std::span<const std::byte> blocks, std::size_t stride, int first,
                     const ExtentList& slots) override {
    copy_in(blocks, stride, first, slots);
    if (late_) copies_.push_back({{}, blocks, std::vector<std::byte>(blocks.begin(), blocks.end())});
  }
  bool settled() const override { return copies_.empty(); }
  void settle() override {
    for (const Late& copy : copies_) {
      if (!copy.to.empty()) std::ranges::copy(copy.bytes, copy.to.begin());
      EXPECT_TRUE(std::ranges::equal(copy.blocks, copy.bytes)) << "blocks were changed before they were copied";
    }
    copies_.clear();
  }
  void copy_in(std::span<const std::byte> blocks, std::size_t stride, int first, const ExtentList& slots) override {
    for (int i = 0; i < slots.length(); ++i)
      std::memcpy(&pool_[static_cast<std::size_t>(slots.slot_at(i))], place(blocks, stride, first + i), sizeof(Value));
  }

 private:
  std::span<std::byte> state(int cell) {
    return std::as_writable_bytes(std::span(*states_).subspan(static_cast<std::size_t>(cell) * each_, each_));
  }
  template <class Byte>
  static Byte* place(std::span<Byte> blocks, std::size_t stride, int token) {
    const auto at = static_cast<std::size_t>(token);
    return &blocks[at / kBlockTokens * stride + at % kBlockTokens * sizeof(Value)];
  }
  struct Late {
    std::span<std::byte> to;
    std::span<const std::byte> blocks;  // as they must be by then
    std::vector<std::byte> bytes;
  };
  std::vector<Value>& pool_;
  std::vector<Value>* states_ = nullptr;
  std::size_t each_ = 0;
  bool late_ = false;
  std::vector<Late> copies_;
};

}  // namespace espalier::testing
