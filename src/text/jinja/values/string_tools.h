// string_tools.h: what methods and filters on strings share.
// Units:   places in bytes unless they are called characters.
// Threads: those of the rendering. Fails: throws Failure (limit). Costs: linear in the text, whatever is searched for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/values/heap.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

std::optional<std::size_t> first_of(Heap& heap, std::string_view text, std::string_view wanted);
std::optional<std::size_t> last_of(Heap& heap, std::string_view text, std::string_view wanted);

Value replaced(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
               std::int64_t most);  // most < 0: all
// separator none: at white space, which is dropped at the ends. most < 0: everywhere.
Value split_text(Heap& heap, std::string_view text, const Value& separator, std::int64_t most, bool from_right);
std::span<const Value> lines_of(Heap& heap, std::string_view text, bool keep_ends);
// chars none: white space.
std::string_view stripped(Heap& heap, std::string_view text, const Value& chars, bool left, bool right);
Value capitalised(Heap& heap, std::string_view text);
// side -1: text on the left, 1: on the right, 0: in the middle, as str.center puts it.
Value padded(Heap& heap, std::string_view text, std::int64_t width, std::string_view fill, int side);
bool has_case(std::string_view text, bool upper);

}  // namespace espalier::jinja
