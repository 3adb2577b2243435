// JPEG by libjpeg-turbo, with its defaults: exact integer DCT, smooth upsampling, as Pillow uses it.
#include "image/decode/decoder.h"

#ifdef ESPALIER_JPEG
#include <csetjmp>
#include <cstdio>
// jpeglib.h wants <cstdio> before it
#include <jpeglib.h>

#include "image/decode/exif.h"
#endif

namespace espalier::pictures {

#ifndef ESPALIER_JPEG

bool jpeg_is_built() {
  return false;
}
Result<Decoded> decode_jpeg(DecodeRun&) {
  return not_built(PictureFormat::jpeg);
}

#else

namespace {

constexpr int most_scans = 200;  // of a progressive file: each passes over all pixels

// libjpeg's state beside what its callbacks need. The library leaves by longjmp, never over objects of ours.
struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf way_out{};
  DecodeRun* run = nullptr;
  bool ended = false;           // all bytes were taken, and the library asked for more
  bool damaged_at_end = false;  // and pixels were missing then
  bool late = false;
  const JOCTET end_marker[2] = {0xFF, JPEG_EOI};

  explicit JpegReader(DecodeRun& decode_run);
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Runs a step that calls the library; false when the library gave up.
  template <class Step>
  bool attempt(Step&& step) {
    if (setjmp(way_out)) return false;
    step();
    return true;
  }
  std::string reason();  // why it gave up
};

JpegReader& reader_of(j_common_ptr info) {
  return *static_cast<JpegReader*>(info->client_data);
}

void give_up(j_common_ptr info) {
  std::longjmp(reader_of(info).way_out, 1);
}

// Warnings are about damaged data, which is shown as far as it goes; at the end of the file they mean that it was cut.
void note_message(j_common_ptr info, int level) {
  JpegReader& reader = reader_of(info);
  if (level < 0 && reader.ended) reader.damaged_at_end = true;
}

boolean fill_input(j_decompress_ptr info) {
  JpegReader& reader = reader_of(reinterpret_cast<j_common_ptr>(info));
  reader.ended = true;
  info->src->next_input_byte = reader.end_marker;
  info->src->bytes_in_buffer = sizeof(reader.end_marker);
  return TRUE;
}

void skip_input(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer) {
    fill_input(info);
    return;
  }
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

void watch_progress(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > most_scans || reader.run->late()) {
    reader.late = true;
    give_up(info);
  }
}

JpegReader::JpegReader(DecodeRun& decode_run) : run(&decode_run) {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = give_up;
  errors.emit_message = note_message;
  errors.output_message = [](j_common_ptr) {};
  info.client_data = this;
  source.init_source = [](j_decompress_ptr) {};
  source.fill_input_buffer = fill_input;
  source.skip_input_data = skip_input;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = [](j_decompress_ptr) {};
  source.next_input_byte = decode_run.bytes().data();
  source.bytes_in_buffer = decode_run.bytes().size();
  progress.progress_monitor = watch_progress;
}

std::string JpegReader::reason() {
  if (ended) return "ends early";
  char text[JMSG_LENGTH_MAX] = {};
  errors.format_message(reinterpret_cast<j_common_ptr>(&info), text);
  return "cannot be decoded (" + std::string(text) + ")";
}

std::uint8_t times_over_255(int a, int b) {
  int product = a * b + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

// Adobe's files hold inverted inks; Pillow takes every CMYK file for one of those.
void cmyk_to_rgb(const JSAMPLE* from, std::uint8_t* to, int width) {
  for (int x = 0; x < width; ++x, from += 4, to += 3) {
    int light = from[3];
    for (int c = 0; c < 3; ++c) {
      int value = light - times_over_255(255 - from[c], light);
      to[c] = static_cast<std::uint8_t>(value < 0 ? 0 : value);
    }
  }
}

void grey_to_rgb(std::uint8_t* row, int width) {
  for (int x = width - 1; x >= 0; --x) row[3 * x] = row[3 * x + 1] = row[3 * x + 2] = row[x];
}

bool read_head(JpegReader& reader) {
  jpeg_create_decompress(&reader.info);
  reader.info.src = &reader.source;
  jpeg_save_markers(&reader.info, JPEG_APP0 + 1, 0xFFFF);
  return reader.attempt([&] { jpeg_read_header(&reader.info, TRUE); });
}

void choose_colours(jpeg_decompress_struct& info) {
  if (info.num_components == 1) {
    info.out_color_space = JCS_GRAYSCALE;
  } else {
    info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  }
}

// Rows as they come. False: the library gave up, or the time is over.
bool read_rows(JpegReader& reader, Picture& picture, Bytes& inks) {
  jpeg_decompress_struct& info = reader.info;
  if (!reader.attempt([&] { jpeg_start_decompress(&info); })) return false;
  while (info.output_scanline < info.output_height) {
    int y = static_cast<int>(info.output_scanline);
    JSAMPROW row = info.num_components == 4 ? inks.data() : picture.row(y);
    if (!reader.attempt([&] { jpeg_read_scanlines(&info, &row, 1); })) return false;
    if (info.num_components == 4) cmyk_to_rgb(row, picture.row(y), picture.width);
    if (info.num_components == 1) grey_to_rgb(row, picture.width);
    if (!reader.run->spend(static_cast<std::uint64_t>(picture.width))) {
      reader.late = true;
      return false;
    }
  }
  return true;
}

int orientation_of(const jpeg_decompress_struct& info) {
  std::optional<int> from_xmp;
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker; marker = marker->next) {
    std::span<const std::uint8_t> data(marker->data, marker->data_length);
    if (auto found = exif_orientation(data)) return *found;
    if (!from_xmp) from_xmp = xmp_orientation(data);
  }
  return from_xmp.value_or(1);
}

}  // namespace

bool jpeg_is_built() {
  return true;
}

Result<Decoded> decode_jpeg(DecodeRun& run) {
  JpegReader reader(run);
  auto refusal = [&] {
    return reader.late ? too_slow(PictureFormat::jpeg) : broken(PictureFormat::jpeg, reader.reason());
  };
  if (!read_head(reader)) return refusal();
  jpeg_decompress_struct& info = reader.info;
  int parts = info.num_components;
  if (parts != 1 && parts != 3 && parts != 4)
    return broken(PictureFormat::jpeg, "has neither 1, 3 nor 4 colour components");
  bool many_scans = jpeg_has_multiple_scans(&info);
  ESP_TRY(Picture picture,
          run.picture(PictureFormat::jpeg, info.image_width, info.image_height, many_scans ? 3 + 2 * parts : 3));
  choose_colours(info);
  info.progress = &reader.progress;
  Bytes inks(parts == 4 ? static_cast<std::size_t>(picture.width) * 4 : 0);
  if (!read_rows(reader, picture, inks)) return refusal();
  if (reader.damaged_at_end || (reader.ended && many_scans)) return broken(PictureFormat::jpeg, "ends early");
  return Decoded{std::move(picture), orientation_of(info)};
}

#endif

}  // namespace espalier::pictures
