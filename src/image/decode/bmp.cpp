// BMP: heads of 12 to 124 bytes, 1 to 32 bits a pixel, run lengths, bit masks. Source: the Windows bitmap format.
#include <algorithm>
#include <array>
#include <bit>

#include "image/decode/decoder.h"

namespace espalier::pictures {

namespace {

using Colour = std::array<std::uint8_t, 3>;
enum Compression : std::uint32_t { uncompressed = 0, runs8 = 1, runs4 = 2, masks = 3, alpha_masks = 6 };

// What the heads say, checked.
struct BmpHead {
  std::int64_t width = 0, height = 0;
  bool from_top = false;
  int bits = 0;
  std::uint32_t compression = uncompressed;
  std::array<std::uint32_t, 3> mask{};
  std::vector<Colour> palette;
  std::size_t pixels_at = 0;
};

// Little-endian numbers of the file; 0 behind its end, which the rows' reader notices.
std::uint32_t number(std::span<const std::uint8_t> file, std::size_t at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    std::size_t place = at + static_cast<std::size_t>(i);
    if (place < file.size()) value |= static_cast<std::uint32_t>(file[place]) << (8 * i);
  }
  return value;
}

Error unsupported_bmp(std::string_view what) {
  return {Error::Kind::unsupported, "the picture is a BMP with " + std::string(what) + ", which is not read", {}, {}};
}

void read_palette(std::span<const std::uint8_t> file, std::size_t at, std::size_t entry_bytes, std::uint32_t colours,
                  BmpHead& head) {
  if (head.bits > 8) return;
  std::size_t most = std::size_t{1} << head.bits;
  std::size_t count = colours == 0 ? most : std::min<std::size_t>(colours, most);
  for (std::size_t i = 0; i < count; ++i, at += entry_bytes) {
    if (at + 3 > file.size()) break;
    head.palette.push_back({file[at + 2], file[at + 1], file[at]});
  }
}

void read_masks(std::span<const std::uint8_t> file, std::size_t at, BmpHead& head) {
  if (head.bits == 16) head.mask = {0x7C00, 0x03E0, 0x001F};
  if (head.bits >= 24) head.mask = {0xFF0000, 0x00FF00, 0x0000FF};
  if (head.compression != masks && head.compression != alpha_masks) return;
  for (std::size_t c = 0; c < 3; ++c) head.mask[c] = number(file, at + 4 * c, 4);
}

Result<> check_head(const BmpHead& head) {
  constexpr std::array<int, 6> known = {1, 4, 8, 16, 24, 32};
  if (std::find(known.begin(), known.end(), head.bits) == known.end())
    return unsupported_bmp(std::to_string(head.bits) + " bits a pixel");
  bool fits = head.compression == uncompressed || (head.compression == runs8 && head.bits == 8) ||
              (head.compression == runs4 && head.bits == 4) ||
              ((head.compression == masks || head.compression == alpha_masks) && head.bits >= 16);
  if (!fits) return unsupported_bmp("compression " + std::to_string(head.compression));
  for (std::uint32_t mask : head.mask) {
    std::uint32_t run = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if ((run & (run + 1)) != 0 || run > 0xFF) return unsupported_bmp("colour masks of such a form");
  }
  return success();
}

Result<BmpHead> read_head(std::span<const std::uint8_t> file) {
  BmpHead head;
  if (file.size() < 26) return broken(PictureFormat::bmp, "ends early");
  head.pixels_at = number(file, 10, 4);
  std::size_t head_bytes = number(file, 14, 4);
  bool oldest = head_bytes == 12;
  if (!oldest && (head_bytes < 40 || head_bytes > 124))
    return unsupported_bmp("a head of " + std::to_string(head_bytes) + " bytes");
  int side = oldest ? 2 : 4;
  head.width = number(file, 18, side);
  head.height =
      oldest ? std::int64_t{number(file, 20, 2)} : std::int64_t{static_cast<std::int32_t>(number(file, 22, 4))};
  head.from_top = head.height < 0;
  if (head.from_top) head.height = -head.height;
  head.bits = static_cast<int>(number(file, oldest ? 24 : 28, 2));
  head.compression = oldest ? static_cast<std::uint32_t>(uncompressed) : number(file, 30, 4);
  std::size_t behind = 14 + head_bytes;
  read_masks(file, 54, head);
  ESP_CHECK(check_head(head));
  bool masks_follow = head_bytes == 40 && (head.compression == masks || head.compression == alpha_masks);
  read_palette(file, behind + (masks_follow ? 12 : 0), oldest ? 3 : 4, oldest ? 0 : number(file, 46, 4), head);
  return head;
}

Colour palette_colour(const BmpHead& head, std::uint32_t index) {
  auto grey = static_cast<std::uint8_t>(index);
  return index < head.palette.size() ? head.palette[index] : Colour{grey, grey, grey};
}

std::uint8_t channel(std::uint32_t pixel, std::uint32_t mask) {
  if (mask == 0) return 0;
  int shift = std::countr_zero(mask);
  std::uint32_t most = mask >> shift;
  return static_cast<std::uint8_t>(((pixel & mask) >> shift) * 255 / most);
}

void row_to_rgb(const BmpHead& head, const std::uint8_t* from, std::uint8_t* to) {
  std::span<const std::uint8_t> row(
      from, (static_cast<std::size_t>(head.width) * static_cast<std::size_t>(head.bits) + 7) / 8);
  for (std::size_t x = 0; x < static_cast<std::size_t>(head.width); ++x, to += 3) {
    Colour colour{};
    if (head.bits <= 8) {
      std::size_t bit = x * static_cast<std::size_t>(head.bits);
      int shift = 8 - head.bits - static_cast<int>(bit % 8);
      colour = palette_colour(head, (static_cast<std::uint32_t>(row[bit / 8]) >> shift) & ((1U << head.bits) - 1));
    } else {
      int bytes = head.bits / 8;
      std::uint32_t pixel = number(row, x * static_cast<std::size_t>(bytes), bytes);
      for (std::size_t c = 0; c < 3; ++c) colour[c] = channel(pixel, head.mask[c]);
    }
    std::copy(colour.begin(), colour.end(), to);
  }
}

Result<Picture> read_rows(DecodeRun& run, const BmpHead& head, Picture picture) {
  std::size_t row_bytes = (static_cast<std::size_t>(head.width) * static_cast<std::size_t>(head.bits) + 31) / 32 * 4;
  std::span<const std::uint8_t> file = run.bytes();
  if (head.pixels_at > file.size()) return broken(PictureFormat::bmp, "ends early");
  std::span<const std::uint8_t> rows = file.subspan(head.pixels_at);
  std::size_t last_row = (static_cast<std::size_t>(head.width) * static_cast<std::size_t>(head.bits) + 7) / 8;
  if (rows.size() < row_bytes * static_cast<std::size_t>(head.height - 1) + last_row)
    return broken(PictureFormat::bmp, "ends early");
  for (int i = 0; i < picture.height; ++i) {
    row_to_rgb(head, rows.data() + row_bytes * static_cast<std::size_t>(i),
               picture.row(head.from_top ? i : picture.height - 1 - i));
    if (!run.spend(static_cast<std::uint64_t>(head.width))) return too_slow(PictureFormat::bmp);
  }
  return picture;
}

// Run lengths: pairs of count and colour; count 0 begins something else (end of row, end, a jump, single pixels).
class RunReader {
 public:
  RunReader(DecodeRun& run, const BmpHead& head, Picture& picture)
      : run_(run), head_(head), picture_(picture), rest_(run.bytes().subspan(head.pixels_at)) {}
  Result<> read();

 private:
  bool step();  // false at the end of the picture
  void put(std::uint32_t index);
  void single_pixels(int count);
  std::uint8_t take() {
    if (rest_.empty()) {
      ended_ = true;
      return 0;
    }
    std::uint8_t byte = rest_[0];
    rest_ = rest_.subspan(1);
    return byte;
  }

  DecodeRun& run_;
  const BmpHead& head_;
  Picture& picture_;
  std::span<const std::uint8_t> rest_;
  int x_ = 0, y_ = 0;  // y from the bottom
  bool ended_ = false;
};

void RunReader::put(std::uint32_t index) {
  if (x_ < picture_.width && y_ < picture_.height) {
    Colour colour = palette_colour(head_, index);
    int y = head_.from_top ? y_ : picture_.height - 1 - y_;
    std::copy(colour.begin(), colour.end(), picture_.row(y) + static_cast<std::ptrdiff_t>(x_) * 3);
  }
  ++x_;
}

void RunReader::single_pixels(int count) {
  std::uint8_t byte = 0;
  for (int i = 0; i < count && !ended_; ++i) {
    if (head_.bits == 8 || i % 2 == 0) byte = take();
    put(head_.bits == 8 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
  }
  int bytes = head_.bits == 8 ? count : (count + 1) / 2;
  if (bytes % 2 != 0) take();
}

bool RunReader::step() {
  int count = take();
  std::uint8_t value = take();
  if (ended_) return false;
  if (count > 0) {
    for (int i = 0; i < count; ++i) put(head_.bits == 8 ? value : i % 2 == 0 ? value >> 4 : value & 15);
  } else if (value == 0) {
    x_ = 0;
    ++y_;
  } else if (value == 1) {
    return false;
  } else if (value == 2) {
    x_ += take();
    y_ += take();
  } else {
    single_pixels(value);
  }
  return y_ < picture_.height;
}

Result<> RunReader::read() {
  fill(picture_, palette_colour(head_, 0));
  while (step()) {
    if (!run_.spend(1)) return too_slow(PictureFormat::bmp);
  }
  if (ended_) return broken(PictureFormat::bmp, "ends early");
  return success();
}

}  // namespace

Result<Decoded> decode_bmp(DecodeRun& run) {
  ESP_TRY(BmpHead head, read_head(run.bytes()));
  ESP_TRY(Picture picture, run.picture(PictureFormat::bmp, head.width, head.height));
  if (head.compression == runs8 || head.compression == runs4) {
    if (head.pixels_at > run.bytes().size()) return broken(PictureFormat::bmp, "ends early");
    RunReader reader(run, head, picture);
    ESP_CHECK(reader.read());
    return Decoded{std::move(picture), 1};
  }
  ESP_TRY(Picture rows, read_rows(run, head, std::move(picture)));
  return Decoded{std::move(rows), 1};
}

}  // namespace espalier::pictures
