// program.h: a program of a workload file: the operations that make its prompts, and the calls in between.
//
// One program holds one state that starts empty: a text, or the messages of a chat. A message's inner operations are
// kept in line, between `OpenMessage` and `CloseMessage`.
// Units:   counts in tokens. Threads: values. Source: shared/workloads/README.md, format espalier-workload/1.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/load/call.h"

namespace espalier::bench {

struct Op;
using Ops = std::vector<Op>;

struct TextOp {
  std::string text;
};
struct GenOp {
  enum class Append { model, script, none };
  std::string var;
  Call call;  // without its prompt
  Append append = Append::model;
  std::string script;      // recorded text, appended instead of the model's
  std::size_t number = 0;  // of this program's calls, in the order of the file
};
struct SelectOp {
  std::string var;
  std::vector<std::string> choices;
  int max_tokens = 1;  // where it is made as text
  std::size_t number = 0;
};
struct VarOp {
  std::string name;
  std::optional<int> line;
  bool strip = false;
};
struct OpenMessage {
  std::string role;
};
struct CloseMessage {};
struct ForkOp {
  std::string var;
  bool from_here = true;  // else every branch starts with an empty state
  bool wait = true;
  std::vector<Ops> branches;
};
struct JoinOp {
  std::vector<std::string> forks;
};

struct Op {
  std::variant<TextOp, GenOp, SelectOp, VarOp, OpenMessage, CloseMessage, ForkOp, JoinOp> what;
};

struct Program {
  Ops ops;
  std::size_t calls = 0;  // gens and selects
};

// The `line`-th of the lines that are not blank, counted modulo their number; empty when there is none.
std::string line_of(const std::string& text, int line);
std::string stripped(const std::string& text);

}  // namespace espalier::bench
