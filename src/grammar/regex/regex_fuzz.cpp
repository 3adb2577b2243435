// Any bytes as a pattern, in both dialects: what comes back is the tree that regex.h describes or an error of its
// kinds, the same each time, and a group around a pattern changes nothing but its place.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "grammar/regex/regex.h"

namespace {

using namespace espalier;
using namespace espalier::grammar;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_set(const CodePointSet& set) {
  std::uint32_t next = 0;
  for (const CodePointRange& range : set.ranges()) {
    require(range.low >= next && range.low <= range.high && range.high <= 0x10FFFF);
    require(range.high < 0xD800 || range.low > 0xDFFF);
    next = range.high + 2;  // one that touched it would be the same range
    if (range.high == 0xD7FF) next = 0xE000;
  }
}

std::size_t children_of(RegexNode::Kind kind) {
  switch (kind) {
    case RegexNode::Kind::concat:
    case RegexNode::Kind::either:
      return 2;  // at least
    case RegexNode::Kind::repeat:
    case RegexNode::Kind::look_ahead:
      return 1;
    default:
      return 0;
  }
}

void require_node(const Regex& regex, int index, bool look_ahead) {
  const RegexNode& node = regex.nodes[static_cast<std::size_t>(index)];
  const std::size_t children = children_of(node.kind);
  require(children == 2 ? node.children.size() >= 2 : node.children.size() == children);
  for (const int child : node.children) require(child >= 0 && child < index);
  if (node.kind == RegexNode::Kind::chars) require(node.set >= 0 && node.set < static_cast<int>(regex.sets.size()));
  if (node.kind == RegexNode::Kind::repeat)
    require(node.low >= 0 && (node.high == RegexNode::kUnbounded || node.low <= node.high));
  require(look_ahead || node.kind != RegexNode::Kind::look_ahead);
}

void require_error(const Error& error) {
  require(error.message.starts_with("regex: ") && error.message.find(" at byte ") != std::string::npos);
  switch (error.kind) {
    case Error::Kind::bad_request:
      return require(error.code == "grammar_invalid");
    case Error::Kind::too_large:
      return require(error.code == "grammar_too_complex");
    default:
      return require(error.kind == Error::Kind::unsupported);
  }
}

// Only flags for the whole pattern must begin it, and in verbose text the end of the group may be taken for a comment.
void require_the_same_in_a_group(std::string_view pattern, const Regex& regex, const RegexOptions& options) {
  if (pattern.find("(?") != std::string_view::npos) return;
  const auto grouped = parse_regex("(?:" + std::string(pattern) + ")", options);
  if (!grouped.ok()) return require(grouped.error().kind == Error::Kind::too_large);
  require(grouped->nodes.size() == regex.nodes.size() && grouped->sets == regex.sets && grouped->root == regex.root);
}

void try_pattern(std::string_view pattern, const RegexOptions& options) {
  const auto regex = parse_regex(pattern, options);
  const auto again = parse_regex(pattern, options);
  require(regex.ok() == again.ok());
  if (!regex.ok()) {
    require(regex.error().message == again.error().message);
    return require_error(regex.error());
  }
  require(regex->nodes.size() <= options.nodes && pattern.size() <= options.bytes);
  require(regex->root >= 0 && regex->root < static_cast<int>(regex->nodes.size()));
  for (std::size_t i = 0; i < regex->nodes.size(); ++i) require_node(*regex, static_cast<int>(i), options.look_ahead);
  for (const CodePointSet& set : regex->sets) require_set(set);
  require_the_same_in_a_group(pattern, *regex, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view pattern(reinterpret_cast<const char*>(data) + 1, size - 1);
  RegexOptions options;
  options.look_ahead = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) {
    options.bytes = 60;
    options.depth = 4;
    options.nodes = 30;
  }
  for (const auto dialect : {RegexDialect::python, RegexDialect::ecma}) {
    options.dialect = dialect;
    try_pattern(pattern, options);
  }
  return 0;
}
