// PNG by libpng, with the conversions of Pillow: no gamma, 16 bits become 8 by their upper byte (grey ones: see RowForm).
#include "image/decode/decoder.h"

#ifdef ESPALIER_PNG
#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "image/decode/exif.h"
#endif

namespace espalier::pictures {

#ifndef ESPALIER_PNG

bool png_is_built() {
  return false;
}
Result<Decoded> decode_png(DecodeRun&) {
  return not_built(PictureFormat::png);
}

#else

namespace {

// libpng's state beside what its callbacks need. The library leaves by longjmp, never over objects of ours.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  DecodeRun& run;
  std::span<const std::uint8_t> rest;
  bool ended = false, late = false;
  char message[96] = {};

  explicit PngReader(DecodeRun& decode_run) : run(decode_run), rest(decode_run.bytes()) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  template <class Step>
  bool attempt(Step&& step) {
    if (setjmp(png_jmpbuf(png))) return false;
    step();
    return true;
  }
  Error refusal() const {
    if (late) return too_slow(PictureFormat::png);
    return broken(PictureFormat::png,
                  ended ? std::string("ends early") : "cannot be decoded (" + std::string(message) + ")");
  }
};

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader.run.late()) {
    reader.late = true;
    png_error(png, "late");
  }
  if (count > reader.rest.size()) {
    reader.ended = true;
    png_error(png, "end of file");
  }
  std::memcpy(to, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

void note_error(png_structp png, png_const_charp text) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, text, sizeof(reader.message) - 1);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

// What rows are made of after the library's own conversions, and how they become RGB.
struct RowForm {
  int channels = 3;
  bool grey16 = false;  // two bytes a pixel; Pillow's conversion to RGB cuts what is more than 255
  bool palette = false;
  std::array<std::array<std::uint8_t, 3>, 256> colours{};
};

void read_palette(PngReader& reader, RowForm& form) {
  png_colorp entries = nullptr;
  int count = 0;
  png_get_PLTE(reader.png, reader.info, &entries, &count);
  for (int i = 0; i < 256; ++i) {
    auto grey = static_cast<std::uint8_t>(i);
    form.colours[static_cast<std::size_t>(i)] =
        i < count ? std::array{entries[i].red, entries[i].green, entries[i].blue} : std::array{grey, grey, grey};
  }
}

// Calls the library; within attempt().
void choose_form(PngReader& reader, RowForm& form) {
  int type = png_get_color_type(reader.png, reader.info), depth = png_get_bit_depth(reader.png, reader.info);
  if (type == PNG_COLOR_TYPE_PALETTE) {
    form.palette = true;
    png_set_packing(reader.png);
    read_palette(reader, form);
  } else if (type == PNG_COLOR_TYPE_GRAY) {
    form.grey16 = depth == 16;
    png_set_expand_gray_1_2_4_to_8(reader.png);
  } else if (depth == 16) {
    png_set_strip_16(reader.png);
  }
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  form.channels = png_get_channels(reader.png, reader.info);
}

// Row bytes -> RGB. One-channel forms: `from` and `to` do not overlap.
void row_to_rgb(const RowForm& form, const std::uint8_t* from, std::uint8_t* to, int width) {
  for (int x = 0; x < width; ++x, to += 3) {
    if (form.palette) {
      const auto& colour = form.colours[from[x]];
      std::copy(colour.begin(), colour.end(), to);
    } else if (form.grey16) {
      to[0] = to[1] = to[2] = from[2 * x] != 0 ? 255 : from[2 * x + 1];
    } else if (form.channels < 3) {
      to[0] = to[1] = to[2] = from[x * form.channels];
    } else {
      std::copy(from + x * form.channels, from + x * form.channels + 3, to);
    }
  }
}

// Whole rows of the file's own form; an interlaced file needs all of them at once.
bool read_rows(PngReader& reader, const RowForm& form, Picture& picture) {
  std::size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  int passes = png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_NONE ? 1 : 7;
  Bytes rows(row_bytes * (passes == 1 ? 1 : static_cast<std::size_t>(picture.height)));
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < picture.height; ++y) {
      std::uint8_t* row = rows.data() + (passes == 1 ? 0 : static_cast<std::size_t>(y) * row_bytes);
      if (!reader.attempt([&] { png_read_row(reader.png, row, nullptr); })) return false;
      reader.late = !reader.run.spend(static_cast<std::uint64_t>(picture.width));
      if (reader.late) return false;
      if (pass == passes - 1) row_to_rgb(form, row, picture.row(y), picture.width);
    }
  }
  return true;
}

int orientation_of(PngReader& reader) {
  png_uint_32 size = 0;
  png_bytep data = nullptr;
  if (!png_get_eXIf_1(reader.png, reader.info, &size, &data)) return 1;
  return exif_orientation({data, size}).value_or(1);
}

// Chunks other than these are skipped: some of them unpack to megabytes.
void skip_other_chunks(png_structp png) {
  static const png_byte wanted[] = "eXIf\0tRNS";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, wanted, 2);
  png_set_chunk_malloc_max(png, 1 << 20);
}

}  // namespace

bool png_is_built() {
  return true;
}

Result<Decoded> decode_png(DecodeRun& run) {
  PngReader reader(run);
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, note_error, ignore_warning);
  reader.info = reader.png ? png_create_info_struct(reader.png) : nullptr;
  if (!reader.info) return Error{Error::Kind::out_of_memory, "there is no memory to decode the picture", {}, {}};
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours come next
  skip_other_chunks(reader.png);
  if (!reader.attempt([&] { png_read_info(reader.png, reader.info); })) return reader.refusal();
  bool interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
  ESP_TRY(Picture picture, run.picture(PictureFormat::png, png_get_image_width(reader.png, reader.info),
                                       png_get_image_height(reader.png, reader.info), interlaced ? 7 : 3));
  RowForm form;
  if (!reader.attempt([&] { choose_form(reader, form); })) return reader.refusal();
  if (!read_rows(reader, form, picture)) return reader.refusal();
  reader.attempt(
      [&] { png_read_end(reader.png, reader.info); });  // all pixels are there: damage behind them does not matter
  return Decoded{std::move(picture), orientation_of(reader)};
}

#endif

}  // namespace espalier::pictures
