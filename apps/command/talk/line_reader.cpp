#include "command/talk/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace espalier::command {
namespace {

constexpr std::string_view kBlock = "\"\"\"";

// Where lines of former chats are kept: $XDG_STATE_HOME/espalier/history, or below ~/.local/state. Empty: nowhere.
std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return {};
  }
  std::error_code failed;
  std::filesystem::create_directories(folder / "espalier", failed);
  return failed ? std::string() : (folder / "espalier" / "history").string();
}

class PlainReader final : public LineReader {
 protected:
  Outcome read_one(const char* prompt, std::string& line) override {
    if (isatty(STDIN_FILENO) != 0) std::fputs(prompt, stderr);
    line.clear();
    for (char c = 0;;) {
      pollfd typed{STDIN_FILENO, POLLIN, 0};  // a signal ends a poll, but not a read: it starts again
      if (::poll(&typed, 1, -1) < 0 && errno == EINTR) return Outcome::interrupted;
      const ssize_t n = ::read(STDIN_FILENO, &c, 1);
      if (n <= 0) return line.empty() ? Outcome::closed : Outcome::line;
      if (c == '\n') return Outcome::line;
      line += c;
    }
  }
};

// While it lives, Ctrl-C is a key: as a signal, libedit would only notice it with the key after it.
class InterruptIsAKey {
 public:
  InterruptIsAKey() {
    known_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    termios now = before_;
    now.c_cc[VINTR] = _POSIX_VDISABLE;
    if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
  }
  ~InterruptIsAKey() {
    if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  InterruptIsAKey(const InterruptIsAKey&) = delete;
  InterruptIsAKey& operator=(const InterruptIsAKey&) = delete;

 private:
  termios before_{};
  bool known_ = false;
};

class EditingReader final : public LineReader {
 public:
  EditingReader() : edit_(el_init("espalier", stdin, stderr, stderr)), history_(history_init()) {
    if (!edit_ || !history_) return;
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, 1000);
    history(history_.get(), &event, H_SETUNIQUE, 1);
    if (!file_.empty()) history(history_.get(), &event, H_LOAD, file_.c_str());
    EditLine* edit = edit_.get();
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_PROMPT, &prompt_of);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_HIST, history, history_.get());
    el_source(edit, nullptr);  // the user's ~/.editrc
    el_set(edit, EL_ADDFN, "espalier-interrupt", "drops the line", &interrupt);
    el_set(edit, EL_BIND, "^C", "espalier-interrupt", nullptr);
    int editing = 0;
    usable_ = el_get(edit, EL_EDITMODE, &editing) == 0 && editing != 0;
  }
  bool usable() const { return usable_; }

 protected:
  Outcome read_one(const char* prompt, std::string& line) override {
    prompt_ = prompt;
    interrupted_ = false;
    const InterruptIsAKey key;
    el_set(edit_.get(), EL_PREP_TERM, 1);  // before the prompt: a Ctrl-D typed right behind it would be lost
    int count = 0;
    const char* typed = el_gets(edit_.get(), &count);
    if (typed == nullptr || count <= 0) {
      std::fputs(interrupted_ ? "^C\n" : "\n", stderr);
      return interrupted_ ? Outcome::interrupted : Outcome::closed;
    }
    line.assign(typed, static_cast<std::size_t>(count));
    if (line.find_first_not_of(" \t\n") != std::string::npos) keep(typed);
    if (line.ends_with('\n')) line.pop_back();
    return Outcome::line;
  }

 private:
  // In the file, too, which only its owner may read: a chat that is killed loses nothing.
  void keep(const char* typed) {
    HistEvent event;
    history(history_.get(), &event, H_ENTER, typed);
    if (file_.empty()) return;
    const mode_t before = umask(S_IRWXG | S_IRWXO);
    history(history_.get(), &event, H_SAVE, file_.c_str());
    umask(before);
  }

  static EditingReader& self(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<EditingReader*>(data);
  }
  static char* prompt_of(EditLine* edit) { return const_cast<char*>(self(edit).prompt_); }
  static unsigned char interrupt(EditLine* edit, int) {
    self(edit).interrupted_ = true;
    return CC_EOF;
  }

  struct End {
    void operator()(EditLine* edit) const { el_end(edit); }
    void operator()(History* kept) const { history_end(kept); }
  };
  std::unique_ptr<EditLine, End> edit_;
  std::unique_ptr<History, End> history_;
  const std::string file_ = history_file();
  const char* prompt_ = "";
  bool interrupted_ = false, usable_ = false;
};

}  // namespace

std::unique_ptr<LineReader> LineReader::open() {
  const char* terminal = std::getenv("TERM");
  const bool edits = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && terminal != nullptr && *terminal != 0 &&
                     std::string_view(terminal) != "dumb";
  if (edits) {
    // libedit takes bytes apart by the locale's encoding; what a person types here is UTF-8 whatever LANG says.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    auto reader = std::make_unique<EditingReader>();
    if (reader->usable()) return reader;
  }
  return std::make_unique<PlainReader>();
}

LineReader::Outcome LineReader::read(std::string& line) {
  Outcome outcome = read_one("> ", line);
  if (outcome == Outcome::line && line.starts_with(kBlock)) return read_block(line);
  for (std::string more; outcome == Outcome::line && line.ends_with('\\');) {
    line.back() = '\n';
    outcome = read_one(". ", more);
    line += more;
  }
  return outcome;
}

LineReader::Outcome LineReader::read_block(std::string& text) {
  text.erase(0, kBlock.size());
  Outcome outcome = Outcome::line;
  for (std::string more; outcome == Outcome::line && !text.ends_with(kBlock);) {
    outcome = read_one(". ", more);
    if (!text.empty()) text += '\n';
    text += more;
  }
  if (text.ends_with(kBlock)) text.resize(text.size() - kBlock.size());
  return outcome;
}

}  // namespace espalier::command
