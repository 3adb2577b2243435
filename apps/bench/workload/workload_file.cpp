#include "bench/workload/workload_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <memory>
#include <set>

#include "base/json_fields.h"
#include "bench/workload/item_parser.h"

namespace espalier::bench {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

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

class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  // The next line that is not blank; false at the end.
  bool next(std::string_view& line) {
    while (!rest_.empty()) {
      const auto end = rest_.find('\n');
      line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++number_;
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) return true;
    }
    return false;
  }
  std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

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

struct GzClose {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

Result<Workload> parse_workload(std::string_view text, const std::string& name) {
  LineReader reader(text);
  auto workload = parse_lines(reader);
  if (!workload.ok())
    return in_file(std::move(workload).error(),
                   fmt::format("{} line {}", name, std::max<std::size_t>(reader.number(), 1)));
  return workload;
}

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));  // reads plain files as they are
  if (!file) return Error{Error::Kind::not_found, fmt::format("cannot open {}", path), {}, {}};
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (int n = 0; (n = gzread(file.get(), buffer.data(), buffer.size())) != 0;) {
    if (n < 0) {
      int code = 0;
      return bad_file(
          fmt::format("{}: cannot be read after {} bytes ({})", path, text.size(), gzerror(file.get(), &code)));
    }
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > kMostBytes)
      return bad_file(fmt::format("{}: is longer than {} bytes unpacked", path, kMostBytes));
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR) return bad_file(fmt::format("{}: ends in the middle of its compressed data", path));
  return text;
}

Result<Workload> read_workload(const std::string& path) {
  ESP_TRY(const std::string text, read_text_file(path));
  return parse_workload(text, path);
}

}  // namespace espalier::bench
