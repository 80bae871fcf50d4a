// The features of a pool of documents for one question, and their weighted sum. The reference, which
// computes each feature in numpy, is `score` of tests/support/reference/ranking.py.
//
// Every column has one value per document of the pool, `size` in all. `terms` are the documents' terms, one document
// after the other, `lengths` how many each has. A missing vector's cosine is nan; an empty column is missing as a whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mnemolog {

// In the order of `projections.search.ranking.FEATURES`.
enum Feature : std::size_t {
    kBm25, kBm25Rank, kCoverage, kNearCoverage, kRawNearCoverage,
    kRelativeCosine, kRawCosine, kCosineRank, kRelativeStatic, kRawStatic,
    kBefore, kAfter, kTwoAway, kCoverageBefore, kCoverageAfter, kAfterQuestion,
    kEpisode, kEpisodeCosine, kEpisodeBest, kEpisodeCoverage, kRawEpisodeCoverage,
    kFirst, kTurnNumber, kLate, kAlone, kSpread,
    kAuthor, kOtherAuthor, kNamedFirstPerson, kUserFirstPerson,
    kUser, kTool, kResult, kAsks, kUserAsks, kImportance,
    kTellsTime, kTimeAsked, kNumber, kNumberAsked, kMonth, kNamedTime,
    kNew, kNewAsked, kNewPast, kNewPresent, kNewerStrong,
    kLength, kRawLength,
    kFeatures,
};

// In the order of `projections.text.cues.TRAITS`.
enum Trait : std::size_t {
    kFirstPersonTrait, kTellsTimeTrait, kToolOutputTrait, kPromptTrait, kUserTurnTrait, kCallTrait, kResultTrait,
    kAsksTrait, kNumberTrait,
    kTraits,
};

// In the order of `projections.search.ranking.KIND`.
inline constexpr std::size_t kKinds = 12;

enum class Mode { kHybrid, kLexical, kVector };

struct Pool {
    std::size_t size;
    std::span<const std::uint32_t> terms;
    std::span<const std::int64_t> lengths;
    std::span<const double> cosine;
    std::span<const double> static_cosine;
    std::span<const std::int32_t> episode;
    std::span<const std::int32_t> sequence;
    std::span<const std::int64_t> occurred_ms;
    std::span<const double> importance;
    // The share of the author's name that the question says, and whether it names another author, and only one.
    std::span<const double> author;
    std::span<const double> other_author;
    std::span<const bool> inside;
    double authors;
};

struct Cues {
    double first_person, time, several, number, past, now, present, question_word, question_mark;
};

struct Asked {
    Mode mode;
    // The distinct terms, and how often the question says each.
    std::span<const std::uint32_t> terms;
    std::span<const double> times;
    std::span<const std::uint32_t> months;
    // Of `terms` with repetitions, also in the mode that uses no words.
    double words;
    Cues cues;
    std::span<const std::uint32_t> traits;
};

struct Weights {
    std::span<const double> features;  // (2, kFeatures)
    std::span<const double> kind;      // (kKinds,)
};

struct Scores {
    std::vector<double> features;  // (kFeatures, size)
    std::array<double, kKinds> kind;
    std::array<double, kFeatures> weights;
    std::vector<double> lexical;
    std::vector<double> final;
    std::vector<double> said;  // (size, terms): how often
    std::vector<double> near;  // (size, terms): 0 or 1
    std::vector<double> traits;  // (kTraits, size): 0 or 1
};

Scores score(const Pool& pool, const Asked& asked, const Weights& weights);

// What is known of each distinct term of a question.
struct Rarity {
    std::span<const double> idf;
    std::span<const bool> in_table;  // whether it has a static vector
    std::span<const double> trust;   // in its spelling
};

// In the order of `projections.search.ranking.ANSWERABLE`.
inline constexpr std::size_t kAnswerable = 6;

// (size, kAnswerable): what speaks for each document. `said` and `near` are (size, terms), above 0 where a document, or a
// document near it, says the term.
std::vector<double> evidence(std::span<const double> said, std::span<const double> near, const Rarity& rarity,
                             std::span<const double> static_cosine, std::span<const double> cosine);

}  // namespace mnemolog
