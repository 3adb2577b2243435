#include "server/media/libav_film.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#ifdef ESPALIER_LIBAV
#include <dlfcn.h>
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}
#endif

namespace espalier::server {
namespace {

Error no_libav(const MediaSource& source, std::string_view why) {
  return invalid_image(fmt::format("{} is no animated GIF or WebP, and other films need FFmpeg's libraries, which {}: "
                                   "send an animation, or the film's frames as a list of pictures",
                                   source.place, why),
                       source.place);
}

#ifdef ESPALIER_LIBAV

Error broken_film(const MediaSource& source, std::string_view what) {
  return invalid_image(fmt::format("{}: the film {}", source.place, what), source.place);
}

// What is used of the libraries.
struct Libav {
  decltype(&::avformat_alloc_context) alloc_format = nullptr;
  decltype(&::avformat_open_input) open_input = nullptr;
  decltype(&::avformat_find_stream_info) find_streams = nullptr;
  decltype(&::avformat_close_input) close_input = nullptr;
  decltype(&::avformat_free_context) free_format = nullptr;
  decltype(&::avio_alloc_context) alloc_io = nullptr;
  decltype(&::avio_context_free) free_io = nullptr;
  decltype(&::av_read_frame) read_packet = nullptr;
  decltype(&::av_seek_frame) seek = nullptr;
  decltype(&::av_find_best_stream) best_stream = nullptr;
  decltype(&::avcodec_alloc_context3) alloc_codec = nullptr;
  decltype(&::avcodec_parameters_to_context) set_parameters = nullptr;
  decltype(&::avcodec_open2) open_codec = nullptr;
  decltype(&::avcodec_free_context) free_codec = nullptr;
  decltype(&::avcodec_send_packet) send = nullptr;
  decltype(&::avcodec_receive_frame) receive = nullptr;
  decltype(&::av_packet_alloc) alloc_packet = nullptr;
  decltype(&::av_packet_free) free_packet = nullptr;
  decltype(&::av_packet_unref) unref_packet = nullptr;
  decltype(&::av_frame_alloc) alloc_frame = nullptr;
  decltype(&::av_frame_free) free_frame = nullptr;
  decltype(&::av_malloc) allocate = nullptr;
  decltype(&::av_freep) release = nullptr;
  decltype(&::av_dict_set) set_option = nullptr;
  decltype(&::av_dict_free) free_options = nullptr;
  decltype(&::av_log_set_level) set_log_level = nullptr;
  decltype(&::sws_getContext) make_scaler = nullptr;
  decltype(&::sws_scale) scale = nullptr;
  decltype(&::sws_freeContext) free_scaler = nullptr;
  bool there = false;
};

template <class Function>
bool take(void* library, const char* name, Function& function) {
  if (library != nullptr) function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

void* library_of(std::string_view name, unsigned major) {
  return ::dlopen(fmt::format("lib{}.so.{}", name, major).c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Loaded once a process, and never again let go of.
Libav loaded_libav() {
  Libav av;
  void* util = library_of("avutil", LIBAVUTIL_VERSION_MAJOR);
  void* codec = library_of("avcodec", LIBAVCODEC_VERSION_MAJOR);
  void* format = library_of("avformat", LIBAVFORMAT_VERSION_MAJOR);
  void* scaler = library_of("swscale", LIBSWSCALE_VERSION_MAJOR);
  av.there = take(format, "avformat_alloc_context", av.alloc_format) &&
             take(format, "avformat_open_input", av.open_input) &&
             take(format, "avformat_find_stream_info", av.find_streams) &&
             take(format, "avformat_close_input", av.close_input) &&
             take(format, "avformat_free_context", av.free_format) && take(format, "avio_alloc_context", av.alloc_io) &&
             take(format, "avio_context_free", av.free_io) && take(format, "av_read_frame", av.read_packet) &&
             take(format, "av_seek_frame", av.seek) && take(format, "av_find_best_stream", av.best_stream);
  av.there = av.there && take(codec, "avcodec_alloc_context3", av.alloc_codec) &&
             take(codec, "avcodec_parameters_to_context", av.set_parameters) &&
             take(codec, "avcodec_open2", av.open_codec) && take(codec, "avcodec_free_context", av.free_codec) &&
             take(codec, "avcodec_send_packet", av.send) && take(codec, "avcodec_receive_frame", av.receive) &&
             take(codec, "av_packet_alloc", av.alloc_packet) && take(codec, "av_packet_free", av.free_packet) &&
             take(codec, "av_packet_unref", av.unref_packet);
  av.there = av.there && take(util, "av_frame_alloc", av.alloc_frame) && take(util, "av_frame_free", av.free_frame) &&
             take(util, "av_malloc", av.allocate) && take(util, "av_freep", av.release) &&
             take(util, "av_log_set_level", av.set_log_level) && take(util, "av_dict_set", av.set_option) &&
             take(util, "av_dict_free", av.free_options) && take(scaler, "sws_getContext", av.make_scaler) &&
             take(scaler, "sws_scale", av.scale) && take(scaler, "sws_freeContext", av.free_scaler);
  if (av.there) av.set_log_level(AV_LOG_QUIET);  // what is wrong with a film is told to who sent it
  return av;
}

const Libav& libav() {
  static const Libav loaded = loaded_libav();
  return loaded;
}

// A film in memory, decoded from its start on.
class FilmReader {
 public:
  FilmReader(std::string file, const pictures::DecodeLimits& limits) : file_(std::move(file)), limits_(limits) {}
  FilmReader(const FilmReader&) = delete;
  FilmReader& operator=(const FilmReader&) = delete;
  ~FilmReader() {
    if (scaler_ != nullptr) av_.free_scaler(scaler_);
    if (frame_ != nullptr) av_.free_frame(&frame_);
    if (packet_ != nullptr) av_.free_packet(&packet_);
    if (codec_ != nullptr) av_.free_codec(&codec_);
    if (format_ != nullptr) av_.close_input(&format_);
    if (io_ != nullptr) {
      av_.release(static_cast<void*>(&io_->buffer));
      av_.free_io(&io_);
    }
  }

  Result<> open(const MediaSource& source) {
    source_ = source;
    source_.addresses.clear();
    ESP_CHECK(open_container());
    const AVCodec* decoder = nullptr;
    stream_ = av_.best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (stream_ < 0 || decoder == nullptr) return broken_film(source_, "has no pictures that can be decoded");
    const AVCodecParameters& parameters = *stream().codecpar;
    if (parameters.width <= 0 || parameters.height <= 0 ||
        std::int64_t{parameters.width} * parameters.height > limits_.pixels)
      return broken_film(source_, fmt::format("has frames of {} x {} pixels, which are too many", parameters.width,
                                              parameters.height));
    codec_ = av_.alloc_codec(decoder);
    packet_ = av_.alloc_packet();
    frame_ = av_.alloc_frame();
    if (codec_ == nullptr || packet_ == nullptr || frame_ == nullptr)
      return broken_film(source_, "needs too much memory");
    codec_->max_pixels = limits_.pixels;
    if (av_.set_parameters(codec_, &parameters) < 0) return broken_film(source_, "cannot be decoded");
    codec_->thread_count = 1;
    if (av_.open_codec(codec_, decoder, nullptr) < 0) return broken_film(source_, "cannot be decoded");
    return count();
  }

  int frames() const { return frames_; }
  double per_second() const {
    const AVRational rate = stream().avg_frame_rate;
    return rate.num > 0 && rate.den > 0 ? static_cast<double>(rate.num) / rate.den : 24;
  }

  // In rising order; the last one once more is the same.
  Result<pictures::Picture> picture(int wanted) {
    while (at_ < wanted) {
      if (limits_.over()) return broken_film(source_, "takes too long to decode");
      ESP_TRY(const bool more, decode_next());
      if (!more) break;  // fewer than its packets promised: the last one stands for the others
    }
    if (at_ < 0) return broken_film(source_, "has no frames that can be decoded");
    return converted();
  }

 private:
  static int read_bytes(void* self, std::uint8_t* to, int bytes) {
    auto& reader = *static_cast<FilmReader*>(self);
    const std::size_t count = std::min(static_cast<std::size_t>(bytes), reader.file_.size() - reader.read_);
    if (count == 0) return AVERROR_EOF;
    std::copy_n(reader.file_.data() + reader.read_, count, to);
    reader.read_ += count;
    return static_cast<int>(count);
  }
  static std::int64_t seek_bytes(void* self, std::int64_t offset, int whence) {
    auto& reader = *static_cast<FilmReader*>(self);
    const auto size = static_cast<std::int64_t>(reader.file_.size());
    if ((whence & AVSEEK_SIZE) != 0) return size;
    const std::int64_t from = whence == SEEK_CUR   ? static_cast<std::int64_t>(reader.read_)
                              : whence == SEEK_END ? size
                                                   : 0;
    if (offset < -from || offset > size - from) return -1;
    reader.read_ = static_cast<std::size_t>(from + offset);
    return from + offset;
  }
  // A film opens no other file.
  static int refuse_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EACCES); }

  Result<> open_container() {
    constexpr int kBuffer = 64 << 10;
    auto* buffer = static_cast<unsigned char*>(av_.allocate(kBuffer));
    io_ = buffer == nullptr ? nullptr : av_.alloc_io(buffer, kBuffer, 0, this, read_bytes, nullptr, seek_bytes);
    format_ = av_.alloc_format();
    if (io_ == nullptr || format_ == nullptr) return broken_film(source_, "needs too much memory");
    format_->pb = io_;
    format_->io_open = refuse_open;
    AVDictionary* options = nullptr;
    av_.set_option(&options, "format_whitelist", "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,ogg", 0);
    const int opened = av_.open_input(&format_, nullptr, nullptr, &options);  // frees the context where it fails
    av_.free_options(&options);
    if (opened < 0) return broken_film(source_, "is in no container that is read (mp4, webm, mkv, avi, mpegts, ogg)");
    if (av_.find_streams(format_, nullptr) < 0) return broken_film(source_, "is broken");
    return success();
  }

  Result<> count() {
    while (av_.read_packet(format_, packet_) >= 0) {
      if (packet_->stream_index == stream_) ++frames_;
      av_.unref_packet(packet_);
      if (limits_.over()) return broken_film(source_, "takes too long to read");
    }
    if (frames_ == 0) return broken_film(source_, "has no frames");
    if (av_.seek(format_, stream_, 0, AVSEEK_FLAG_BACKWARD) < 0) return broken_film(source_, "cannot be read twice");
    return success();
  }

  // False at the end.
  Result<bool> decode_next() {
    while (true) {
      const int got = av_.receive(codec_, frame_);
      if (got >= 0) {
        ++at_;
        return true;
      }
      if (got != AVERROR(EAGAIN) || drained_) return false;
      bool sent = false;
      while (!sent && av_.read_packet(format_, packet_) >= 0) {
        if (packet_->stream_index == stream_) sent = av_.send(codec_, packet_) >= 0;
        av_.unref_packet(packet_);
      }
      if (sent) continue;
      drained_ = true;
      if (av_.send(codec_, nullptr) < 0) return false;
    }
  }

  Result<pictures::Picture> converted() {
    if (converted_ == at_) return last_;
    if (std::int64_t{frame_->width} * frame_->height > limits_.pixels || frame_->width <= 0 || frame_->height <= 0)
      return broken_film(source_, "has a frame of too many pixels");
    if (scaler_ != nullptr) av_.free_scaler(scaler_);
    scaler_ =
        av_.make_scaler(frame_->width, frame_->height, static_cast<AVPixelFormat>(frame_->format), frame_->width,
                        frame_->height, AV_PIX_FMT_RGB24, SWS_BILINEAR | SWS_ACCURATE_RND, nullptr, nullptr, nullptr);
    if (scaler_ == nullptr) return broken_film(source_, "has frames in a form that is not read");
    pictures::Picture picture(frame_->width, frame_->height);
    std::uint8_t* rows[] = {picture.rgb.data(), nullptr, nullptr, nullptr};
    const int strides[] = {3 * frame_->width, 0, 0, 0};
    av_.scale(scaler_, frame_->data, frame_->linesize, 0, frame_->height, rows, strides);
    converted_ = at_;
    last_ = picture;
    return picture;
  }

  const AVStream& stream() const { return *format_->streams[stream_]; }

  const Libav& av_ = libav();
  const std::string file_;
  const pictures::DecodeLimits limits_;
  MediaSource source_;
  std::size_t read_ = 0;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  AVCodecContext* codec_ = nullptr;
  AVPacket* packet_ = nullptr;
  AVFrame* frame_ = nullptr;
  SwsContext* scaler_ = nullptr;
  int stream_ = -1, frames_ = 0, at_ = -1, converted_ = -1;
  bool drained_ = false;
  pictures::Picture last_;
};

#endif

}  // namespace

#ifdef ESPALIER_LIBAV

Result<Film> film_of_libav(const std::string& file, const MediaSource& source, const pictures::DecodeLimits& limits) {
  if (!libav().there) return no_libav(source, "are not installed here");
  auto reader = std::make_shared<FilmReader>(file, limits);
  ESP_CHECK(reader->open(source));
  Film film;
  film.frames = reader->frames();
  film.has_time = true;
  film.per_second = source.per_second.value_or(reader->per_second());
  film.picture = [reader](int frame) { return reader->picture(frame); };
  return film;
}

#else

Result<Film> film_of_libav(const std::string&, const MediaSource& source, const pictures::DecodeLimits&) {
  return no_libav(source, "this build was made without");
}

#endif

}  // namespace espalier::server
