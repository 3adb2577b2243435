// conversions.h: which rows are needed in which form, and who makes them; the first half of lowering (lower.h).
//
// For every product: the places it reads and the forms its weights want. One conversion serves all products that read
// the same columns before they change. What ranks bring together goes in the form of its only readers, where all ranks agree:
// each converts its own columns. Threads: one; all ranks of a group make theirs at once. Fails: never.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "model/cpu/linear.h"
#include "model/cpu/memory.h"
#include "model/program/program.h"

namespace espalier {

// Rows in one form, from the operation that makes it to the last product that reads it.
struct Conversion {
  enum class By { row_function, attention, gated_product, activated_product, gather };
  Rows rows;
  RowFormat format;
  int maker;    // the operation behind (or, for row functions, before) which it is made
  bool before;  // a function of rows that runs before `maker`, not behind it
  By by;
  int memory = -1;
};

// The conversions of one program, found before it runs.
class Conversions {
 public:
  Conversions(const Program& program, const ComputeWith& with, const std::vector<Linear>& matrices);

  const std::vector<Conversion>& all() const { return all_; }
  // Gives every conversion its memory.
  void place(BufferMemory& memory);
  // The conversion that serves `op` for these columns.
  const Conversion* serving(int op, const Rows& rows, RowFormat format) const;
  // Of the operation's output, where it is made by the operation itself; of a product whose activation comes next (and
  // is made with it), of the activation's.
  const Conversion* made_by(int op) const;
  // The form of what ranks bring together; nothing: floats.
  std::optional<RowFormat> gathered(int op) const {
    const auto found = gathers_.find(op);
    return found == gathers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  struct Use {
    int op;
    Rows rows;
    RowFormats formats;
  };
  struct Service {
    int op, conversion;
  };
  void collect(int op, const Op& operation);
  void agree_on_gathers();
  unsigned formats_of_gather(int op, const AllGatherOp& o) const;
  RowFormats formats_of_experts(const ExpertsOp& o) const;
  void serve(const Use& use, RowFormat format);
  int last_writer(const Rows& rows, int before) const;
  bool only_read_as(const Rows& rows, RowFormat format, int from) const;
  bool only_activated(const Rows& rows, int activation) const;
  Conversion make(const Use& use, RowFormat format) const;

  const Program& program_;
  const ComputeWith& with_;
  const std::vector<Linear>& matrices_;
  std::vector<Use> uses_;
  std::map<int, RowFormat> gathers_;  // that ranks make in another form than floats, by operation
  std::vector<Conversion> all_;
  std::vector<Service> services_;
};

// Whether the operation computes each row by itself.
bool is_of_rows(const Op& op);

// Operations of rows that follow one another are one stage, which takes a row through all of them before the next row:
// what any of them uses is in use from the first to the last.
int first_of_stage(const Program& program, int op);
int last_of_stage(const Program& program, int op);

}  // namespace espalier
