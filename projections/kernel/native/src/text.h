// What is read out of ASCII texts. Every character is one byte below 128; the callers see to that.
//
// White space, letters and digits are Python's: of ASCII also the four separators 0x1c to 0x1f are white space.
// Nothing here is safe for two threads at once: an object keeps what it read before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

struct SN_env;  // of Snowball

namespace mnemolog {

constexpr bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }
constexpr bool is_upper(char letter) { return letter >= 'A' && letter <= 'Z'; }
constexpr bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
constexpr bool is_letter(char letter) { return is_lower(static_cast<char>(letter | 0x20)); }
constexpr bool is_alnum(char letter) { return is_letter(letter) || is_digit(letter); }
constexpr bool is_word(char letter) { return is_alnum(letter) || letter == '_'; }
constexpr bool is_space(char letter) {
    return letter == ' ' || (letter >= 9 && letter <= 13) || (letter >= 28 && letter <= 31);
}
constexpr char lower(char letter) { return is_upper(letter) ? static_cast<char>(letter | 0x20) : letter; }

// A list of short strings in one piece of memory, each with a space behind it.
class Strings {
public:
    void add(std::string_view text) {
        letters_.append(text).push_back(' ');
        ends_.push_back(letters_.size());
    }
    void add_lower(std::string_view text);
    // A stop word that is a name.
    void add_name(std::string_view word) {
        letters_.push_back('=');
        add(word);
    }
    void clear() {
        letters_.clear();
        ends_.clear();
    }
    void pop() {
        ends_.pop_back();
        letters_.resize(ends_.empty() ? 0 : ends_.back());
    }
    std::size_t size() const { return ends_.size(); }
    std::string_view operator[](std::size_t place) const {
        const std::size_t start = place ? ends_[place - 1] : 0;
        return std::string_view(letters_).substr(start, ends_[place] - 1 - start);
    }
    // All of them with spaces between.
    std::string_view joined() const {
        return std::string_view(letters_).substr(0, letters_.empty() ? 0 : letters_.size() - 1);
    }

private:
    std::string letters_;
    std::vector<std::size_t> ends_;  // behind each space
};

struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using WordSet = std::unordered_set<std::string, StringHash, std::equal_to<>>;

// Index terms, as `terms` in projections/search/terms.py describes them.
class Terms {
public:
    // `operators` are stop words that are no names in capitals.
    Terms(WordSet stop_words, WordSet operators);
    ~Terms();

    // The terms of a text, in reading order; valid until the next call.
    const Strings& of(std::string_view text);

private:
    // A word of up to 31 characters and its stem, each filled up with zeros; the last byte is the length.
    struct Slot {
        std::array<std::uint64_t, 4> word, stem;
    };
    static constexpr std::size_t kSlots = 16384, kLongestKept = 31;
    static constexpr unsigned char kStopWord = 255;  // in the place of a stem's length

    void read_run(std::string_view run);
    void add_stem(std::string_view word);
    std::string_view stem(std::string_view word);

    WordSet stop_words_, operators_;
    std::unique_ptr<SN_env, void (*)(SN_env*)> stemmer_;
    std::vector<Slot> kept_;  // a word has one slot; a newer word takes it
    std::string plain_;       // the text without clitics
    Strings words_, terms_;
};

// The part of a text where most of a query's terms are said, as `snippet` in terms.py: UTF-8, on one line, of at most
// `limit` characters, which is 2 at least.
std::string snippet(std::string_view text, const std::vector<std::string>& query_terms, std::size_t limit);

}  // namespace mnemolog
