// operations.h: what operators do, with Python's meaning.
// Threads: those of the rendering. Fails: throws Failure: runtime when an operation has no meaning for its operands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/syntax/ast.h"
#include "text/jinja/values/heap.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

bool truthy(const Value& value);
std::size_t length(Heap& heap, const Value& value);

bool equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
int order(Heap& heap, const Value& a, const Value& b, int depth = 0);  // <0, 0, >0
bool contains(Heap& heap, const Value& container, const Value& item);
bool compare(Heap& heap, Operator op, const Value& a, const Value& b);

Value arithmetic(Heap& heap, Operator op, const Value& a, const Value& b);
Value negate(const Value& a);

// Every element at once: items of a list or tuple, characters of a text, keys of a dict, ... A generator is used up.
std::span<const Value> elements_of(Heap& heap, const Value& value);
// Whether elements_of would work.
bool iterable(const Value& value);

const Value* find(Heap& heap, const Value& dict, const Value& key);
const Value* find(const Value& dict, std::string_view key);
Value with_entries(Heap& heap, const Value& dict, std::span<const Entry> more);  // later keys replace earlier ones

Value attribute(Heap& heap, const Value& object, std::string_view name);  // object.name
Value item(Heap& heap, const Value& object, const Value& key);            // object[key]
Value slice(Heap& heap, const Value& object, const Value& start, const Value& stop, const Value& step);

Value new_list(Heap& heap, std::span<const Value> values);
Value new_tuple(Heap& heap, std::span<const Value> values);
Value new_generator(Heap& heap, const Value& source);

std::int64_t to_integer(const Value& value, std::string_view what);  // for arguments that must be whole numbers
double to_real(const Value& value);                                  // Requires: value.is_number()

}  // namespace espalier::jinja
