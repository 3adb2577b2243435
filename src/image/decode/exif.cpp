#include "image/decode/exif.h"

#include <algorithm>
#include <string_view>

namespace espalier::pictures {

namespace {

// Numbers of a TIFF block in its own byte order.
class TiffBlock {
 public:
  explicit TiffBlock(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), little_(bytes.size() >= 2 && bytes[0] == 'I') {}

  bool is_tiff() const {
    if (bytes_.size() < 8) return false;
    bool order = (bytes_[0] == 'I' && bytes_[1] == 'I') || (bytes_[0] == 'M' && bytes_[1] == 'M');
    return order && number(2, 2) == 42;
  }
  // Nothing where the block ends before.
  std::optional<std::uint32_t> number(std::uint64_t at, int bytes) const {
    if (at + static_cast<std::uint64_t>(bytes) > bytes_.size()) return std::nullopt;
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      int shift = 8 * (little_ ? i : bytes - 1 - i);
      value |= static_cast<std::uint32_t>(bytes_[at + static_cast<std::uint64_t>(i)]) << shift;
    }
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool little_;
};

constexpr std::uint32_t orientation_tag = 0x0112, short_type = 3, long_type = 4;

// The pixel of the original that lands at (x, y).
struct Source {
  int x, y;
};

Source source_of(int orientation, int x, int y, const Picture& from) {
  int right = from.width - 1, bottom = from.height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    default:
      return {right - y, x};
  }
}

}  // namespace

std::optional<int> exif_orientation(std::span<const std::uint8_t> block) {
  constexpr std::string_view head("Exif\0\0", 6);
  if (block.size() >= head.size() && std::equal(head.begin(), head.end(), block.begin()))
    block = block.subspan(head.size());
  TiffBlock tiff(block);
  if (!tiff.is_tiff()) return std::nullopt;
  std::uint64_t directory = *tiff.number(4, 4);
  std::uint32_t entries = tiff.number(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    std::uint64_t entry = directory + 2 + 12ULL * i;
    auto tag = tiff.number(entry, 2), type = tiff.number(entry + 2, 2);
    if (!tag || !type) return std::nullopt;
    if (*tag != orientation_tag) continue;
    if (*type == short_type) return static_cast<int>(tiff.number(entry + 8, 2).value_or(1));
    if (*type == long_type) return static_cast<int>(std::min(tiff.number(entry + 8, 4).value_or(1), 100U));
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<int> xmp_orientation(std::span<const std::uint8_t> text) {
  std::string_view xmp(reinterpret_cast<const char*>(text.data()), text.size());
  constexpr std::string_view name = "tiff:Orientation";
  for (std::size_t at = xmp.find(name); at != std::string_view::npos; at = xmp.find(name, at + 1)) {
    std::string_view rest = xmp.substr(at + name.size());
    rest.remove_prefix(rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : rest.size());
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return std::nullopt;
}

Picture upright(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  bool turned = orientation >= 5;
  Picture out(turned ? picture.height : picture.width, turned ? picture.width : picture.height);
  for (int y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x) {
      Source at = source_of(orientation, x, y, picture);
      const std::uint8_t* from = picture.row(at.y) + static_cast<std::ptrdiff_t>(at.x) * 3;
      std::copy(from, from + 3, to + static_cast<std::ptrdiff_t>(x) * 3);
    }
  }
  return out;
}

}  // namespace espalier::pictures
