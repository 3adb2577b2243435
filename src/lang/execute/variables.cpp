#include "lang/execute/variables.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"
#include "lang/batch/text_budget.h"

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
  slot.told.reset();
}

void Variables::fulfil(const std::string& name, Value value, Json meta) {
  set(name, std::move(value), std::move(meta));
  Slot& slot = slots_[name];
  come(name, slot);
  slot.partial.clear();
}

void Variables::append(const std::string& name, std::string_view piece, Json meta) {
  Slot& slot = slots_[name];
  slot.partial += piece;
  if (!meta.is_null()) slot.meta = std::move(meta);
}

void Variables::refuse(const std::string& name, Error why) {
  Slot& slot = slots_[name];
  slot.error = std::move(why);
  slot.told.reset();
  come(name, slot, slot.coming);
}

void Variables::refuse_one(const std::string& name, Error why) {
  Slot& slot = slots_[name];
  slot.error = std::move(why);
  slot.told.reset();
  come(name, slot);
}

void Variables::forgo(const std::string& name) {
  come(name, slots_[name]);
}

void Variables::refuse_all(const Error& why) {
  for (auto& [name, slot] : slots_)
    if (slot.coming > 0) {
      slot.error = why;
      slot.told.reset();
      come(name, slot, slot.coming);
    }
}

const std::shared_ptr<const Result<Value>>& Variables::told(std::string_view name, Slot& slot) {
  if (slot.told) return slot.told;
  if (slot.error)
    slot.told = std::make_shared<const Result<Value>>(*slot.error);
  else
    slot.told = std::make_shared<const Result<Value>>(slot.value ? Result<Value>(*slot.value) : unknown(name));
  return slot.told;
}

std::shared_ptr<PromisedValue> Variables::promise(std::string_view name) {
  auto promised = std::make_shared<PromisedValue>();
  const auto at = slots_.find(name);
  if (at == slots_.end())
    promised->put(std::make_shared<const Result<Value>>(unknown(name)));
  else if (at->second.coming == 0)
    promised->put(told(name, at->second));
  else
    at->second.promises.push_back({at->second.come + at->second.coming, promised});
  return promised;
}

void Variables::come(std::string_view name, Slot& slot, int count) {
  count = std::min(count, slot.coming);
  slot.coming -= count;
  slot.come += count;
  std::erase_if(slot.promises, [&](Promise& one) {
    if (one.after > slot.come) return false;
    kept_.emplace_back([promised = std::move(one.value), value = told(name, slot)] { promised->put(value); });
    return true;
  });
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
  if (!known(name)) return Result<Json>(Json());  // no call, nothing that a server told
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

Result<std::optional<Piece>> Variables::piece(std::string_view name, std::size_t seen) const {
  if (const std::string* text = streamed(name); text != nullptr && text->size() > seen)
    return std::optional<Piece>({text->substr(seen), latest_meta(name)});
  const auto value = read(name);
  if (!value->ok()) return value->error();
  const std::string text = (*value)->text();
  if (text.size() <= seen) return std::optional<Piece>();
  return std::optional<Piece>({text.substr(seen), latest_meta(name)});
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
    const Slot* theirs = origin.find(name);
    if (theirs != nullptr && !slot.value) {  // else it was set here in the meantime
      slot.value = theirs->value;
      slot.meta = theirs->meta;
      slot.error = theirs->error;
      slot.told.reset();
    }
    come(name, slot);
  }
}

}  // namespace espalier::lang
