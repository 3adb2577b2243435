#include "grammar/automaton/needless.h"

#include <algorithm>
#include <span>

namespace espalier::grammar {

std::optional<NeedlessParts::AnyText> NeedlessParts::any_text(Expression e) const {
  const bool has_tail = nodes_.op(e) == Op::concat;
  const Expression head = has_tail ? nodes_.operand(e) : e;
  if (nodes_.op(head) != Op::repeat) return std::nullopt;
  for (const Alphabet alphabet : {Alphabet::plain, Alphabet::json}) {
    if (head == any_texts_[static_cast<std::size_t>(alphabet)])
      return AnyText{flag(alphabet), has_tail ? nodes_.rest(e) : ExpressionNodes::empty};
  }
  return std::nullopt;
}

// Whether all that it reads are whole characters, then what the tail reads.
bool NeedlessParts::has_characters_before(Expression e, const AnyText& any) const {
  for (; e != any.tail; e = nodes_.rest(e)) {
    if (any.tail == ExpressionNodes::empty) return nodes_.reads_characters(e, any.flag);
    if (nodes_.op(e) != Op::concat || !nodes_.reads_characters(nodes_.operand(e), any.flag)) return false;
  }
  return true;
}

void NeedlessParts::drop_alternatives(std::vector<Expression>& alternatives) const {
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const Expression any = alternatives[i];
    const auto text = any_text(any);
    if (!text) continue;
    const auto needless = [&](Expression e) { return e != any && has_characters_before(e, *text); };
    const auto before = std::span(alternatives).first(i);
    i -= static_cast<std::size_t>(std::ranges::count_if(before, needless));
    std::erase_if(alternatives, needless);
  }
}

bool NeedlessParts::drop_conditions(std::vector<Expression>& operands) const {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Expression any = operands[i];
    const bool excluded = nodes_.op(any) == Op::negation;
    const auto text = any_text(excluded ? nodes_.operand(any) : any);
    if (!text) continue;
    const auto first = [&](Expression e) { return nodes_.op(e) == Op::concat ? nodes_.operand(e) : e; };
    const auto is_counted = [&](Expression e) {
      return nodes_.op(first(e)) == Op::repeat && nodes_.operand(first(e)) == nodes_.operand(first(any));
    };
    const bool beside_stricter = std::ranges::any_of(operands, [&](Expression e) {
      return e != any && (excluded || is_counted(e)) && has_characters_before(e, *text);
    });
    if (beside_stricter && excluded) return false;
    if (beside_stricter) operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  return true;
}

}  // namespace espalier::grammar
