#include "bench/workload/json_lines.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/json/json_fields.h"

namespace espalier::bench {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

struct GzClose {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

bool LineReader::next(std::string_view& line) {
  while (!rest_.empty()) {
    const auto end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++number_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));  // reads plain files as they are
  if (!file) return Error{Error::Kind::not_found, fmt::format("cannot open {}", path), {}, {}};
  std::string text;
  std::array<char, 1 << 16> buffer;
  int code = Z_OK;
  for (int n = 0; (n = gzread(file.get(), buffer.data(), buffer.size())) != 0;) {
    if (n < 0)
      return bad_file(
          fmt::format("{}: cannot be read after {} bytes ({})", path, text.size(), gzerror(file.get(), &code)));
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > kMostBytes)
      return bad_file(fmt::format("{}: is longer than {} bytes unpacked", path, kMostBytes));
  }
  gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR) return bad_file(fmt::format("{}: ends in the middle of its compressed data", path));
  return text;
}

Error at_line(Error error, const std::string& name, const LineReader& reader) {
  return in_file(std::move(error), fmt::format("{} line {}", name, std::max<std::size_t>(reader.number(), 1)));
}

Result<> for_each_json_line(const std::string& path, std::optional<int> most,
                            const std::function<Result<>(const Json& value, std::size_t number)>& take) {
  ESP_TRY(const std::string text, read_text_file(path));
  LineReader reader(text);
  std::string_view line;
  for (std::size_t number = 0; (!most || std::cmp_less(number, *most)) && reader.next(line); ++number) {
    auto value = parse_json(line);
    if (!value.ok()) return at_line(std::move(value).error(), path, reader);
    if (auto taken = take(*value, number); !taken.ok()) return at_line(std::move(taken).error(), path, reader);
  }
  return success();
}

}  // namespace espalier::bench
