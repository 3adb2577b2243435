// log.h: one line per event on stderr, as text or JSON. Events with figures have a key for each of them in JSON.
// Threads: any. Fails: never; a closed or full stderr only counts (log::lost_lines()).
// Client-chosen strings are escaped here (control characters, quotes), so callers may pass them as they came.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace espalier::log {

// How much an event matters; those below the configured one are not written.
enum class Level { debug, info, warning, error };
// How a line is written: for people, or as a JSON object.
enum class Format { text, json };

void configure(Level lowest, Format format);
bool enabled(Level level);
void write(Level level, std::string_view message);

// A figure of an event: a key of its own in JSON, "name=value" in text.
struct Field {
  std::string_view name;  // one of our own words, not a client's
  std::variant<bool, std::int64_t, double, std::string_view> value;
};
// `message` is the whole line in text; in JSON `fields` stand beside it.
void event(Level level, std::string_view message, std::initializer_list<Field> fields);
Format format();
std::uint64_t lost_lines();

template <class... A>
void debug(fmt::format_string<A...> f, A&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(f, std::forward<A>(args)...));
}
template <class... A>
void info(fmt::format_string<A...> f, A&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(f, std::forward<A>(args)...));
}
template <class... A>
void warning(fmt::format_string<A...> f, A&&... args) {
  if (enabled(Level::warning)) write(Level::warning, fmt::format(f, std::forward<A>(args)...));
}
template <class... A>
void error(fmt::format_string<A...> f, A&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(f, std::forward<A>(args)...));
}

}  // namespace espalier::log
