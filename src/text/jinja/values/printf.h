// printf.h: Python's three ways to format text: "%s" % x, "{}".format(x), and single numbers within both.
// Threads: those of the rendering. Fails: throws Failure.
#pragma once

#include <string_view>

#include "text/jinja/values/callable.h"
#include "text/jinja/values/heap.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

// A tuple gives the arguments one by one, a dict by name, anything else is the only argument.
Value percent_format(Heap& heap, std::string_view format, const Value& arguments);

Value brace_format(Heap& heap, std::string_view format, const Arguments& arguments);

// [[fill]align][sign][#][0][width][,][.precision][type]
void add_formatted(Text& out, const Value& value, std::string_view spec);

// How a number is to look; shared by both ways.
struct NumberFormat {
  char type = 'd';     // d x X o b for integers; e E f F g G % for reals
  int precision = -1;  // -1: not given
  bool alternate = false;
  char group = '\0';  // ',' or '_' between thousands
};
std::string format_magnitude(const Value& number, const NumberFormat& format);  // without sign
bool is_negative(const Value& number);

}  // namespace espalier::jinja
