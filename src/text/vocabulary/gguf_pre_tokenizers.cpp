#include "text/vocabulary/gguf_pre_tokenizers.h"

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
// As Qwen 2's without English contractions: Turkish suffixes stay behind their apostrophe.
constexpr std::array kUfakzeka{
    Pattern(R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kLaguna{Pattern(R"([^\n]+|[\n]+)"), kQwen2[0]};
constexpr std::array kMiniCpm5{
    kUpToThreeDigits,
    Pattern(
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
// Korean words may go on behind a blank.
constexpr std::array kExaoneMoe{Pattern(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)")};
// As Llama 3's, with runs of white space cut in powers of two.
constexpr std::array kJais2{Pattern(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})")};
constexpr std::array kTekken{Pattern(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kGpt4o{Pattern(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
// Marks count as letters.
constexpr std::array kGraniteMulti{Pattern(
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
// Digits in groups of three from the right.
constexpr std::array kTinyAya{Pattern(R"(\d{1,3}(?=(?:\d{3})*\b))"), kGpt4o[0]};
constexpr std::array kYoutu{
    Pattern(
        R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B})"
        R"(\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
    Pattern(
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
        R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kKimi{Pattern(
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
// Code points are written as numbers: several of these characters look like others or are changed by normalisation.
constexpr std::array kBloom{Pattern(R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)")};
constexpr std::array kViking{kBloom[0], kDigit};
constexpr Pattern kHanAndHangul = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::array kDeepseekCoder{Pattern("[\r\n]"), Pattern(R"(\s?\p{L}+)"), Pattern(R"(\s?\p{P}+)"), kHanAndHangul,
                                    kDigit};
// Letters that have a case.
constexpr Pattern kCased =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C})"
    R"(\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::array kDeepseekLlm{
    Pattern("[\r\n]"),
    kCased,
    Pattern(R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"),
    Pattern(R"(\s+$)"),
    kHanAndHangul,
    Pattern(R"(\p{N}+)")};
constexpr Pattern kWordsAndSigns =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array kDeepseekV3{kUpToThreeDigits, Pattern(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
                                 kWordsAndSigns};
// As DeepSeek V3's, but that line ends stand alone, and so does every digit.
constexpr std::array kSpark25{
    kUpToThreeDigits, kDeepseekV3[1],
    Pattern(
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"),
    kDigit};
// Digits in groups of three from the right; then as above with more scripts.
constexpr std::array kAfmoe{
    Pattern(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))"),
    Pattern(R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF})"
            R"(\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F})"
            R"(\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)"),
    kWordsAndSigns};
constexpr std::array kSuperBpe{Pattern(R"(\p{N}+)"), Pattern(R"((?=(\d{3})+(?!\d)))")};
constexpr std::array kChameleon{Pattern("<sentinel:[0-9]+>"),       Pattern("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                                Pattern("([\\t\\n]|    |  )"),      kDigit,
                                Pattern(R"([\p{P}!-/:-@\[-`{-~])"), kGpt2};

constexpr GgufPreTokenizer kGpt2Family{kGpt2Only};
constexpr GgufPreTokenizer kGpt2Nfc{kGpt2Only, true};
constexpr GgufPreTokenizer kGpt2Encoder{.patterns = kGpt2Only, .add_sep = true};
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
    {"jina-v1-en", kGpt2Encoder},
    {"jina-v2-es", kGpt2Family},
    {"jina-v2-de", kGpt2Family},
    {"jina-v2-code", kGpt2Encoder},
    {"roberta-bpe", kGpt2Encoder},
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
    {"mellum2", kStarcoderFamily},
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
    {"jais-2", {kJais2}},
    {"minicpm5", {kMiniCpm5, false, true}},
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
    {"openpangu", kQwen2Plain},
    {"laguna", {kLaguna}},
    {"ufakzeka", {kUfakzeka}},
    {"exaone-moe", {kExaoneMoe}},
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
    {"tiny_aya", {kTinyAya}},
    {"cohere2moe", {kTinyAya}},
    {"cohere2_moe", {kTinyAya}},
    {"granite-embed-multi-97m", {kGraniteMulti, false, true}},
    {"youtu", {kYoutu, false, true}},
    {"kimi-k2", {kKimi}},
    {"kimi-k25", {kKimi}},
    {"falcon", {kFalcon}},
    {"bloom", kBloomFamily},
    {"poro-chat", kBloomFamily},
    {"gpt3-finnish", kBloomFamily},
    {"viking", {kViking}},
    {"deepseek-llm", {kDeepseekLlm}},
    {"deepseek-coder", {kDeepseekCoder}},
    {"deepseek-v3", kDeepseekV3Family},
    {"hunyuan-dense", kDeepseekV3Family},
    {"hy_v4", kDeepseekV3Family},
    {"spark2_5", {kSpark25}},
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
