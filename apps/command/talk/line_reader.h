// line_reader.h: lines that a person types: edited and with a history where there is a terminal, as they come where
// not.
//
// The prompt goes to stderr, so that answers on stdout can be kept in a file. Ctrl-C drops the line, Ctrl-D on an empty
// one is the end. A line that ends in a backslash goes on in the next, and one that begins with """ up to the next """.
// In a terminal that edits, lines are kept for the next chat (at most 1,000; $XDG_STATE_HOME/espalier/history).
// Threads: one. Fails: never; a terminal that libedit cannot drive is read without editing.
#pragma once

#include <memory>
#include <string>

namespace espalier::command {

class LineReader {
 public:
  enum class Outcome { line, interrupted, closed };

  static std::unique_ptr<LineReader> open();
  virtual ~LineReader() = default;

  // One line, its continuations included, into `line`.
  Outcome read(std::string& line);

 protected:
  virtual Outcome read_one(const char* prompt, std::string& line) = 0;

 private:
  Outcome read_block(std::string& text);
};

}  // namespace espalier::command
