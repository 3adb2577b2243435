#include "bench/workload/program_run.h"

#include <fmt/format.h>

#include <utility>

namespace espalier::bench {

// A place in the operations, with the state and the variables there. The root has no parent.
struct ProgramRun::Branch {
  const Ops* ops = nullptr;
  std::size_t next = 0;
  std::string text;               // the state of a plain program
  Json messages = Json::array();  // the state of a chat
  bool in_message = false;        // the last message is still being written
  std::map<std::string, Value> values;
  std::set<std::string> assigned;
  std::map<std::string, int> forks;  // started here: branches still running
  std::set<std::string> awaited;     // forks that must end before it goes on; empty when it waits for none
  Branch* parent = nullptr;
  std::string fork, prefix;  // of the parent that this is a branch of: "b", "b.2."

  void append(const std::string& more) {
    if (in_message)
      messages.back()["content"].get_ref<std::string&>() += more;
    else
      text += more;
  }
  void assign(const std::string& name, Value value) {
    values[name] = std::move(value);
    assigned.insert(name);
  }
  bool waits() const {
    for (const std::string& fork_name : awaited)
      if (const auto open = forks.find(fork_name); open != forks.end() && open->second > 0) return true;
    return false;
  }
  Prompt prompt() const {
    if (!in_message) return text;
    Messages out{messages, false};
    if (out.list.back()["content"].get_ref<const std::string&>().empty())
      out.list.erase(out.list.size() - 1);  // the server opens the assistant's message itself
    else
      out.continues_last = true;
    return out;
  }
};

ProgramRun::ProgramRun(const Program& program, std::size_t item, Caller& caller, Done done)
    : program_(program), item_(item), caller_(caller), done_(std::move(done)) {
  result_.outputs.resize(program.calls);
}
ProgramRun::~ProgramRun() = default;

void ProgramRun::start() {
  auto root = std::make_unique<Branch>();
  root->ops = &program_.ops;
  ready_.push_back(root.get());
  branches_.emplace(root.get(), std::move(root));
  run_ready();
}

// All that can go on without an answer. Branches wait here rather than on the stack, however deep they are.
void ProgramRun::run_ready() {
  if (std::exchange(running_, true)) return;
  while (!ready_.empty()) {
    Branch* branch = ready_.front();
    ready_.pop_front();
    step(*branch);
  }
  running_ = false;
  end_if_idle();
}

void ProgramRun::step(Branch& branch) {
  while (result_.ok && branch.next < branch.ops->size())
    if (!operate(branch, (*branch.ops)[branch.next++])) return;
  if (!result_.ok) return;
  for (const auto& [fork, left] : branch.forks)
    if (left > 0) branch.awaited.insert(fork);
  if (branch.awaited.empty()) end_branch(branch);
}

bool ProgramRun::operate(Branch& branch, const Op& op) {
  if (const auto* text = std::get_if<TextOp>(&op.what)) {
    branch.append(text->text);
  } else if (const auto* var = std::get_if<VarOp>(&op.what)) {
    const std::string& whole = *branch.values.at(var->name);  // the parser saw that it is set
    const std::string value = var->line ? line_of(whole, *var->line) : whole;
    branch.append(var->strip ? stripped(value) : value);
  } else if (const auto* open = std::get_if<OpenMessage>(&op.what)) {
    branch.messages.push_back({{"role", open->role}, {"content", ""}});
    branch.in_message = true;
  } else if (std::holds_alternative<CloseMessage>(op.what)) {
    branch.in_message = false;
  } else if (const auto* gen = std::get_if<GenOp>(&op.what)) {
    begin_gen(branch, *gen);
    return false;
  } else if (const auto* select = std::get_if<SelectOp>(&op.what)) {
    begin_select(branch, *select);
    return false;
  } else if (const auto* fork = std::get_if<ForkOp>(&op.what)) {
    begin_fork(branch, *fork);
    if (fork->wait) branch.awaited.insert(fork->var);
  } else if (const auto* join = std::get_if<JoinOp>(&op.what)) {
    branch.awaited.insert(join->forks.begin(), join->forks.end());
  }
  if (branch.waits()) return false;
  branch.awaited.clear();
  return true;
}

void ProgramRun::begin_gen(Branch& branch, const GenOp& gen) {
  Call call = gen.call;
  call.prompt = branch.prompt();
  ++under_way_;
  caller_.generate(item_, std::move(call), [this, &branch, &gen](bool ok, const std::string& text) {
    --under_way_;
    if (!ok) return fail();
    const bool script = gen.append == GenOp::Append::script;
    end_call(branch, gen.var, gen.number, text, script ? gen.script : text, gen.append != GenOp::Append::none);
  });
}

void ProgramRun::begin_select(Branch& branch, const SelectOp& select) {
  Call call;
  call.prompt = branch.prompt();
  call.number = select.number;
  call.max_tokens = select.max_tokens;
  call.temperature = 0;
  ++under_way_;
  caller_.select(item_, std::move(call), select.choices, [this, &branch, &select](bool ok, std::size_t choice) {
    --under_way_;
    if (!ok) return fail();
    end_call(branch, select.var, select.number, select.choices[choice], select.choices[choice], true);
  });
}

void ProgramRun::end_call(Branch& branch, const std::string& var, std::size_t number, const std::string& output,
                          const std::string& value, bool append) {
  if (!result_.ok) return end_if_idle();
  result_.outputs[number] = output;
  branch.assign(var, std::make_shared<const std::string>(value));
  if (append) branch.append(value);
  ready_.push_back(&branch);
  run_ready();
}

void ProgramRun::begin_fork(Branch& branch, const ForkOp& fork) {
  branch.forks[fork.var] = static_cast<int>(fork.branches.size());
  for (std::size_t i = 0; i < fork.branches.size(); ++i) {
    auto child = std::make_unique<Branch>();
    child->ops = &fork.branches[i];
    child->values = branch.values;
    child->parent = &branch;
    child->fork = fork.var;
    child->prefix = fmt::format("{}.{}.", fork.var, i);
    if (fork.from_here) {
      child->text = branch.text;
      child->messages = branch.messages;
    }
    ready_.push_back(child.get());
    branches_.emplace(child.get(), std::move(child));
  }
}

void ProgramRun::end_branch(Branch& branch) {
  Branch* parent = branch.parent;
  if (parent) {
    for (const std::string& name : branch.assigned) parent->assign(branch.prefix + name, branch.values.at(name));
    --parent->forks.at(branch.fork);
    if (!parent->awaited.empty() && !parent->waits()) {
      parent->awaited.clear();  // it goes on once, whatever else ends meanwhile
      ready_.push_back(parent);
    }
  }
  branches_.erase(&branch);
}

void ProgramRun::fail() {
  result_.ok = false;
  ready_.clear();
  end_if_idle();
}

void ProgramRun::end_if_idle() {
  if (running_ || under_way_ > 0 || (result_.ok && !branches_.empty()) || !done_) return;
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result_));  // may end this run's life
}

}  // namespace espalier::bench
