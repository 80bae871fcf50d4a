// Which documents say which terms, and the words that are near a misspelled one. Kept in memory, only added to.
//
// A term is the 32-bit hash of a word. Its documents are packed in the order in which they were added: for each, the
// distance from the one before times two, plus one if it says the term more than once, then how often it does. All are
// variable-length numbers: seven bits a byte, the lowest first, the eighth bit set in all but the last. Most take one or
// two bytes. A removed document stays; every question says which documents are allowed.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "documents.h"

namespace mnemolog {

// A word of more letters is data.
inline constexpr std::size_t kLongestWord = 64;

struct Question {
    std::span<const std::uint32_t> terms;
    // Indexed by document; a document outside is not allowed.
    std::span<const bool> allowed;
    // How many terms each document has. At least as many as `allowed`.
    std::span<const std::int64_t> lengths;
};

struct Bm25 {
    std::span<const double> idf;
    double k1, b, average_length;

    // What a document of this length adds to how often it says a term.
    double norm(double length) const { return k1 * (1 - b + b * length / average_length); }

    // What a term adds to the score of a document that says it so often; less than its idf.
    double score(std::size_t term, double times, double norm) const { return idf[term] * times / (times + norm); }
};

struct Scored {
    std::vector<std::int64_t> documents;
    std::vector<double> scores;
};

class Postings {
public:
    // Adds a document, which must be greater than all before. `words` are the terms' words, separated by spaces, as
    // many as `terms`, or empty if they are not known.
    void add(std::uint32_t document, std::span<const std::uint32_t> terms, std::string_view words);

    // Adds words for terms that have none, for look-ups of similar words.
    void add_word(std::uint32_t term, std::string_view word);

    // All words, each with its term.
    std::vector<std::pair<std::uint32_t, std::string>> words() const;

    // How many allowed documents say each term.
    std::vector<std::int64_t> frequencies(const Question& question) const;

    // The best `most` allowed documents that say at least `least` of the terms, and all that score as much as the last
    // of them, in the order of the documents.
    Scored best(const Question& question, const Bm25& bm25, std::size_t least, std::size_t most);

    // The same for one term at least, by reading no more postings than needed: the rarest terms first, until no document
    // that says only the others can be among the best. What the best say of these is read in their own terms. MaxScore:
    // Turtle and Flood, Information Processing & Management 31 (1995).
    Scored best_of_rarest(const Question& question, const Bm25& bm25, const TermColumn& documents, std::size_t most);

    // The allowed documents that say at least `least` of the terms, and have at most `times` as many terms, and
    // `beside`, as they say of these.
    std::vector<std::int64_t> mostly(const Question& question, std::size_t least, std::int64_t times,
                                     std::int64_t beside);

    // The words that at most `edits` letters distinguish from a word, with the same first letter. Swapped neighbors
    // count as one letter.
    std::vector<std::string> similar(const std::string& word, std::size_t edits) const;

private:
    // Most terms are said by few documents: their postings fit into the string itself.
    struct Term {
        std::string packed;
        std::uint32_t hash = 0;
        std::uint32_t last = 0;
        std::uint32_t word = 0;  // where it begins in `letters_`; 0 for none
    };

    // The number of a term that has a word, and which letters are in it.
    struct Word {
        std::uint32_t term, kinds;
    };

    template <typename Visit>
    void each(std::uint32_t term, Visit visit) const;
    void touch(const Question& question, std::size_t term, const Bm25* bm25);
    void touch(const Question& question, const Bm25* bm25);
    // The score of the document that is the best but `most - 1` of those that are touched.
    double score_of_last(std::size_t most) const;
    std::size_t length_of(std::uint32_t term) const;
    void clear_touched();
    // Where the number of a term is, or has to be.
    std::size_t slot_of(std::uint32_t hash) const;
    const Term* find(std::uint32_t hash) const;
    Term& find_or_add(std::uint32_t hash);
    std::string_view word_of(const Term& term) const;

    // A deque, because a vector that doubles is half empty for long.
    std::deque<Term> terms_;
    // Open addressing: the number of a term plus one, at the first free slot from its hash on; 0 is free. A power of two
    // in size, and at most two thirds full.
    std::vector<std::uint32_t> slots_ = std::vector<std::uint32_t>(1024);
    // Each word, followed by a zero byte. The first byte belongs to no word.
    std::string letters_ = std::string(1, '\0');
    // By the first byte and the length in letters of their word.
    std::unordered_map<std::uint32_t, std::vector<Word>> words_like_;

    // What a document says of the current question: how many of its terms, and how often.
    struct Said {
        double score = 0;
        std::uint32_t times = 0;
        std::uint32_t terms = 0;
    };

    // By document; zeros but for those that the current question has touched.
    std::vector<Said> said_;
    std::vector<std::uint32_t> touched_;
};

}  // namespace mnemolog
