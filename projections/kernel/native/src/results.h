// The results of a question: the documents of a pool in the order of their scores, each with how likely it is the
// answer. The reference is `results` of tests/support/reference/results.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "documents.h"
#include "ranking.h"
#include "vectors.h"

namespace mnemolog {

// The columns of an index, by ordinal.
struct Rows {
    TermColumn terms;
    Vectors model, static_vectors;
    // The letter of the kind and the seven characters after the prefix, big endian: sorts like the ids.
    std::span<const std::uint64_t> id_key;
    std::span<const std::int32_t> episode, sequence, author;
    std::span<const std::int64_t> occurred_ms;
    std::span<const float> importance;
    TermColumn names;  // of each author
};

// Whether a question's confidence is known at all, and whether it is in English, and surely so.
struct Language {
    bool known, english, surely_english;
    // Whether the model's vectors are of the model that the static ones were distilled from.
    bool of_model;
    // Whether it is nothing but names: those that differ are as near as those that are the same.
    bool is_name;
    // Terms whose language is known, ascending, and (terms, 2): whether each is English, and a function word of another
    // language.
    std::span<const std::uint32_t> terms;
    std::span<const std::int64_t> values;
};

struct Request {
    Asked asked;
    Weights weights;
    std::span<const double> answerable, share;  // `Weights` of `projections.search.ranking`
    std::span<const float> vector, static_vector;  // empty: none
    Rarity rarity;
    std::span<const bool> counted;  // (terms,), which do not name the time that the question names
    std::span<const bool> numbers;  // (terms,), which have a digit
    // The time that the question names, until before `to_ms`, and its dates; no time: `from_ms` is `to_ms`.
    std::int64_t from_ms, to_ms;
    Documents dates;
    Documents identifiers;  // that the question says as a whole
    double identifiers_share;
    Documents names;  // one of which a result has to say; none for a question that is more than names
    bool exact, lookup, word_or_two, remark, lists_parts, fold;
    std::size_t limit;
    // Recency weighs `1 - alpha`; a negative half-life: nothing.
    double half_life_ms, alpha;
    std::int64_t now_ms;
    Language language;
};

// What is said of a result beside its score, in the order of `projections.search.search.PARTS`; nan: nothing.
enum Part : std::size_t {
    kScorePart, kAnswersPart, kAnswerablePart, kCosinePart, kStaticPart, kFirstOfTimePart, kWholePart, kRelevancePart,
    kToolPart, kEchoPart, kConfidencePart, kImportancePart, kRecencyPart,
    kParts,
};

// Of most of the first results; English if they have no words, or no terms have a known language.
enum class ResultLanguage { kEnglish, kCode, kOther };

struct Results {
    Scores scores;
    ResultLanguage language = ResultLanguage::kEnglish;
    std::vector<double> whole, evidence;
    // Best first: the place in the pool, the number of the result that it is, or repeats, and (kParts,) of each.
    std::vector<std::int64_t> places, numbers;
    std::vector<double> parts;
};

// `documents` are ordinals in the order of their ids, which decides between equal scores; not empty. `confidence` is of
// each of them.
Results results_of(const Rows& rows, std::span<const std::int64_t> documents, std::span<const double> confidence,
                   const Request& request);

}  // namespace mnemolog
