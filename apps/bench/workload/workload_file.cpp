#include "bench/workload/workload_file.h"

#include <fmt/format.h>

#include <set>

#include "base/json/json_fields.h"
#include "bench/workload/item_parser.h"
#include "bench/workload/json_lines.h"

namespace espalier::bench {
namespace {

struct Header {
  std::string name;
  bool programs = false, serial = false, chat = false;
  std::int64_t items = 0;
};

Result<bool> one_of_two(const Json& line, const char* field, std::string_view no, std::string_view yes) {
  ESP_TRY(const std::string word, get_string(line, field));
  if (word != no && word != yes)
    return bad_request(fmt::format("{} is {}, but must be {} or {}", field, in_quotes(word, 40), no, yes), field);
  return word == yes;
}

Result<Header> parse_header(const Json& line) {
  ESP_TRY(const std::string format, get_string(line, "format"));
  if (format != "espalier-workload/1")
    return bad_request(fmt::format("format is {}, but this reads espalier-workload/1", in_quotes(format, 60)),
                       "format");
  Header header;
  ESP_TRY(header.name, get_string(line, "workload"));
  ESP_TRY(header.programs, one_of_two(line, "kind", "requests", "programs"));
  ESP_TRY(header.serial, one_of_two(line, "order", "any", "serial"));
  ESP_TRY(header.chat, one_of_two(line, "api", "completions", "chat"));
  ESP_TRY(header.items, get_integer(line, "n", {0, 10'000'000}));
  return header;
}

Result<Workload> parse_lines(LineReader& reader) {
  std::string_view text;
  if (!reader.next(text)) return bad_request("is empty; the first line must be the header of espalier-workload/1");
  ESP_TRY(const Json first, parse_json(text));
  ESP_TRY(const Header header, parse_header(first));
  Workload workload;
  workload.name = header.name;
  workload.programs = header.programs;
  workload.serial = header.serial;
  std::set<std::string> ids;
  while (reader.next(text)) {
    ESP_TRY(const Json line, parse_json(text));
    ESP_TRY(Item item, parse_item(line, header.programs, header.chat));
    if (!ids.insert(item.id).second)
      return bad_request(fmt::format("id {} stands on an earlier line too", in_quotes(item.id, 60)), "id");
    workload.items.push_back(std::move(item));
  }
  if (std::cmp_not_equal(workload.items.size(), header.items))
    return bad_request(
        fmt::format("the header says n = {}, but {} items follow: is the file whole?", header.items, ids.size()), "n");
  return workload;
}

}  // namespace

Result<Workload> parse_workload(std::string_view text, const std::string& name) {
  LineReader reader(text);
  auto workload = parse_lines(reader);
  if (!workload.ok()) return at_line(std::move(workload).error(), name, reader);
  return workload;
}

Result<Workload> read_workload(const std::string& path) {
  ESP_TRY(const std::string text, read_text_file(path));
  return parse_workload(text, path);
}

}  // namespace espalier::bench
