#include "text/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <utility>

namespace espalier {
namespace {

using Pattern = std::string_view;

constexpr Pattern kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr Pattern kDigit = R"(\p{N})";
constexpr Pattern kUpToThreeDigits = R"(\p{N}{1,3})";

constexpr std::array kGpt2Only{kGpt2};
constexpr std::array kDigitsThenGpt2{kDigit, kGpt2};
constexpr std::array kDefault{Pattern(R"([\p{P}\$\+<=>\^~\|]+)"), kGpt2, Pattern(R"(\p{N}+)"),
                              Pattern("[0-9][0-9][0-9]")};
constexpr std::array kFalcon{Pattern(R"([\p{P}\$\+<=>\^~\|`]+)"), kGpt2, Pattern("[0-9][0-9][0-9]")};
constexpr std::array kLlama3{Pattern(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kQwen2{Pattern(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kQwen35{Pattern(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kBailing{Pattern(
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)")};
constexpr std::array kSeedCoder{Pattern(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kTekken{Pattern(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kGpt4o{Pattern(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kKimi{Pattern(
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kBloom{Pattern(R"( ?[^(\s|.,!?…。，、।۔،)]+)")};
constexpr std::array kViking{Pattern(R"( ?[^(\s|.,!?…。，、।۔،)]+)"), kDigit};
constexpr std::array kDeepseekCoder{Pattern("[\r\n]"), Pattern(R"(\s?\p{L}+)"), Pattern(R"(\s?\p{P}+)"),
                                    Pattern("[一-龥ࠀ-一가-\xed\x9f\xbf]+"), kDigit};
constexpr std::array kDeepseekLlm{
    Pattern("[\r\n]"),
    Pattern(
        R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)"),
    Pattern(R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)"),
    Pattern(R"(\s+$)"),
    Pattern("[一-龥ࠀ-一가-\xed\x9f\xbf]+"),
    Pattern(R"(\p{N}+)")};
constexpr std::array kDeepseekV3{
    kUpToThreeDigits, Pattern("[一-龥\xe3\x81\x80-ゟ゠-ヿ]+"),
    Pattern(
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
// Digits in groups of three from the right; then as above with more scripts.
constexpr std::array kAfmoe{
    Pattern(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))"),
    Pattern("[一-鿿㐀-䶿豈-\xef\xab\xbf\xe3\x81\x80-ゟ゠-ヿ･-ﾟ⼀-\xe2\xbf\x9fเ-\xe0\xb9\xbf\xe0\xba\x80-\xe0\xbb\xbfក-"
            "\xe1\x9f\xbfက-႟ꩠ-ꩿꧠ-\xea\xa7\xbf가-\xed\x9e\xafᄀ-ᇿ]+"),
    kDeepseekV3[2]};
constexpr std::array kSuperBpe{Pattern(R"(\p{N}+)"), Pattern(R"((?=(\d{3})+(?!\d)))")};
constexpr std::array kChameleon{Pattern("<sentinel:[0-9]+>"),       Pattern("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                                Pattern("([\\t\\n]|    |  )"),      kDigit,
                                Pattern(R"([\p{P}!-/:-@\[-`{-~])"), kGpt2};

constexpr GgufPreTokenizer kGpt2Family{kGpt2Only};
constexpr GgufPreTokenizer kGpt2Nfc{kGpt2Only, true};
constexpr GgufPreTokenizer kStarcoderFamily{kDigitsThenGpt2};
constexpr GgufPreTokenizer kLlama3Family{kLlama3, false, true, true};
constexpr GgufPreTokenizer kLlama3Plain{kLlama3};
constexpr GgufPreTokenizer kQwen2Nfc{kQwen2, true};
constexpr GgufPreTokenizer kQwen2Plain{kQwen2};
constexpr GgufPreTokenizer kDeepseekV3Family{kDeepseekV3};
constexpr GgufPreTokenizer kGpt4oFamily{kGpt4o};
constexpr GgufPreTokenizer kBailingFamily{kBailing};
constexpr GgufPreTokenizer kBloomFamily{kBloom};

constexpr std::pair<std::string_view, GgufPreTokenizer> kTable[] = {
    {"", {kDefault}},
    {"default", {kDefault}},
    {"gpt-2", kGpt2Family},
    {"gpt2", kGpt2Family},
    {"phi-2", kGpt2Family},
    {"jina-es", kGpt2Family},
    {"jina-de", kGpt2Family},
    {"jina-v1-en", kGpt2Family},
    {"jina-v2-es", kGpt2Family},
    {"jina-v2-de", kGpt2Family},
    {"jina-v2-code", kGpt2Family},
    {"roberta-bpe", kGpt2Family},
    {"modern-bert", kGpt2Nfc},
    {"gigachat", kGpt2Family},
    {"a.x-4.0", kGpt2Family},
    {"mellum", kGpt2Family},
    {"exaone4", kGpt2Family},
    {"jais", kGpt2Family},
    {"trillion", kGpt2Family},
    {"granite-docling", kGpt2Family},
    {"mpt", kGpt2Nfc},
    {"olmo", kGpt2Nfc},
    {"starcoder", kStarcoderFamily},
    {"refact", kStarcoderFamily},
    {"command-r", {kDigitsThenGpt2, true}},
    {"smollm", kStarcoderFamily},
    {"codeshell", kStarcoderFamily},
    {"exaone", kStarcoderFamily},
    {"minerva-7b", kStarcoderFamily},
    {"llama3", kLlama3Family},
    {"llama-v3", kLlama3Family},
    {"llama-bpe", kLlama3Family},
    {"falcon3", kLlama3Family},
    {"falcon-h1", kLlama3Family},
    {"pixtral", kLlama3Family},
    {"midm-2.0", kLlama3Family},
    {"lfm2", kLlama3Family},
    {"jina-v5-nano", kLlama3Family},
    {"dbrx", kLlama3Plain},
    {"smaug-bpe", kLlama3Plain},
    {"glm4", kLlama3Plain},
    {"chatglm-bpe", kLlama3Plain},
    {"qwen2", kQwen2Nfc},
    {"deepseek-r1-qwen", kQwen2Nfc},
    {"kormo", kQwen2Nfc},
    {"f2llmv2", kQwen2Nfc},
    {"megrez", kQwen2Nfc},
    {"qwen35", {kQwen35, true}},
    {"stablelm2", kQwen2Nfc},
    {"hunyuan", kQwen2Plain},
    {"solar-open", kQwen2Plain},
    {"grok-2", kQwen2Plain},
    {"bailingmoe", kBailingFamily},
    {"bailingmoe2", kBailingFamily},
    {"llada-moe", kBailingFamily},
    {"seed-coder", {kSeedCoder}},
    {"tekken", {kTekken, false, true, true}},
    {"gpt-4o", kGpt4oFamily},
    {"llama4", kGpt4oFamily},
    {"kanana2", kGpt4oFamily},
    {"talkie", kGpt4oFamily},
    {"minimax-m2", kGpt4oFamily},
    {"kimi-k2", {kKimi}},
    {"falcon", {kFalcon}},
    {"bloom", kBloomFamily},
    {"poro-chat", kBloomFamily},
    {"gpt3-finnish", kBloomFamily},
    {"viking", {kViking}},
    {"deepseek-llm", {kDeepseekLlm}},
    {"deepseek-coder", {kDeepseekCoder}},
    {"deepseek-v3", kDeepseekV3Family},
    {"hunyuan-dense", kDeepseekV3Family},
    {"joyai-llm", kDeepseekV3Family},
    {"afmoe", {kAfmoe}},
    {"superbpe", {kSuperBpe}},
    {"chameleon", {kChameleon, false, false, true}},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTable), std::end(kTable), [&](const auto& row) { return row.first == name; });
  return found == std::end(kTable) ? nullptr : &found->second;
}

}  // namespace espalier
