#include "lang/variables.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "lang/text_allowance.h"

namespace espalier::lang {

void Variables::announce(const std::string& name) {
  Slot& slot = slots_[name];
  ++slot.coming;
  slot.partial.clear();
}

void Variables::set(const std::string& name, Value value, Json meta) {
  Slot& slot = slots_[name];
  slot.value = std::move(value);
  slot.meta = std::move(meta);
  slot.error.reset();
}

void Variables::fulfil(const std::string& name, Value value, Json meta) {
  set(name, std::move(value), std::move(meta));
  Slot& slot = slots_[name];
  slot.coming = std::max(0, slot.coming - 1);
  slot.partial.clear();
}

void Variables::append(const std::string& name, std::string_view piece, Json meta) {
  Slot& slot = slots_[name];
  slot.partial += piece;
  if (!meta.is_null()) slot.meta = std::move(meta);
}

void Variables::refuse(const std::string& name, Error why) {
  Slot& slot = slots_[name];
  slot.coming = 0;
  slot.error = std::move(why);
}

void Variables::refuse_one(const std::string& name, Error why) {
  forgo(name);
  slots_[name].error = std::move(why);
}

void Variables::forgo(const std::string& name) {
  Slot& slot = slots_[name];
  slot.coming = std::max(0, slot.coming - 1);
}

void Variables::refuse_all(const Error& why) {
  for (auto& [name, slot] : slots_)
    if (slot.coming > 0) {
      slot.coming = 0;
      slot.error = why;
    }
}

const Variables::Slot* Variables::find(std::string_view name) const {
  const auto at = slots_.find(name);
  return at == slots_.end() ? nullptr : &at->second;
}

bool Variables::contains(std::string_view name) const {
  const Slot* slot = find(name);
  return slot != nullptr && slot->value.has_value();
}

bool Variables::settled(std::string_view name) const {
  const Slot* slot = find(name);
  return slot == nullptr || slot->coming == 0;
}

const Value* Variables::current(std::string_view name) const {
  const Slot* slot = find(name);
  return slot != nullptr && slot->value ? &*slot->value : nullptr;
}

bool Variables::known(std::string_view name) const {
  return find(name) != nullptr;
}

Error Variables::unknown(std::string_view name) {
  return bad_request(fmt::format("no variable {}: nothing in this state sets it", in_quotes(name)), std::string(name),
                     "no_such_variable");
}

std::optional<Result<Value>> Variables::read(std::string_view name) const {
  const Slot* slot = find(name);
  if (slot == nullptr) return Result<Value>(unknown(name));
  if (slot->coming > 0) return std::nullopt;
  if (slot->error) return Result<Value>(*slot->error);
  return slot->value ? Result<Value>(*slot->value) : Result<Value>(unknown(name));
}

std::optional<Result<Json>> Variables::meta(std::string_view name) const {
  const auto value = read(name);
  if (!value) return std::nullopt;
  return value->ok() ? Result<Json>(find(name)->meta) : Result<Json>(value->error());
}

const std::string* Variables::streamed(std::string_view name) const {
  const Slot* slot = find(name);
  return slot != nullptr && slot->coming > 0 && !slot->partial.empty() ? &slot->partial : nullptr;
}

Json Variables::latest_meta(std::string_view name) const {
  const Slot* slot = find(name);
  return slot != nullptr ? slot->meta : Json();
}

std::vector<std::string> Variables::names() const {
  std::vector<std::string> all;
  for (const auto& [name, slot] : slots_) all.push_back(name);
  return all;
}

std::size_t Variables::bytes() const {
  std::size_t sum = 0;
  for (const auto& [name, slot] : slots_)
    if (slot.value) sum += bytes_of(*slot.value);
  return sum;
}

void Variables::announce_all(const Variables& origin) {
  for (const auto& [name, theirs] : origin.slots_) {
    Slot& slot = slots_[name];
    slot.coming = 1;
    slot.inherited = true;
  }
}

bool Variables::inherits(std::string_view name) const {
  const Slot* slot = find(name);
  return slot != nullptr && slot->inherited;
}

void Variables::inherit(const Variables& origin, const std::function<bool(const std::string& name)>& to_come) {
  for (auto& [name, slot] : slots_) {
    if (!slot.inherited) continue;
    slot.inherited = false;
    if (to_come(name)) continue;
    slot.coming = std::max(0, slot.coming - 1);
    const Slot* theirs = origin.find(name);
    if (theirs == nullptr || slot.value) continue;  // set here in the meantime
    slot.value = theirs->value;
    slot.meta = theirs->meta;
    slot.error = theirs->error;
  }
}

}  // namespace espalier::lang
