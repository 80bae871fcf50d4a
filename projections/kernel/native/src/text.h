// What is read out of texts of ASCII letters. Every character is one byte below 128; the callers see to that, and put
// `kSign` in the place of typographic signs, as dashes and arrows. Like them it is no letter and no punctuation.
//
// White space, letters and digits are Python's: of ASCII also the four separators 0x1c to 0x1f are white space.
// Nothing here is safe for two threads at once: an object keeps what it read before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
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

std::string lowered(std::string_view text);

// A set of characters as a table, for what is looked up for each character of a text.
class CharacterSet {
public:
    explicit constexpr CharacterSet(std::string_view characters) {
        for (const char each : characters) table_[static_cast<unsigned char>(each)] = true;
    }
    constexpr bool contains(char each) const { return table_[static_cast<unsigned char>(each)]; }

private:
    std::array<bool, 256> table_{};
};

inline constexpr char kSign = 1;

// Whether a character beyond ASCII is a sign that says nothing to any of these readers, nor to their references: it is
// no letter, digit, white space, quotation mark that ends words, or part of an identifier, nor made of any (NFKD).
constexpr bool is_sign(std::uint32_t code) {
    const auto within = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
    if (code < 0x2000)
        return (within(0xa1, 0xbf) && code != 0xaa && code != 0xb2 && code != 0xb3 && code != 0xb5 && code != 0xb7 &&
                code != 0xb9 && code != 0xba && !within(0xbc, 0xbe)) ||
               code == 0xd7 || code == 0xf7;
    return within(0x2010, 0x2023) || within(0x2025, 0x2027) || within(0x2030, 0x203e) || within(0x2041, 0x2053) ||
           within(0x2055, 0x205e) || within(0x20a0, 0x20a7) || within(0x20a9, 0x20bf) || within(0x2190, 0x23ff) ||
           within(0x2500, 0x2775) || within(0x2794, 0x27ff) || within(0x2900, 0x2bff) || within(0x1f300, 0x1faff);
}

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
inline constexpr std::size_t kLongestListed = 32;  // characters of a word in a set

// A set of words. Most words of a text are in none, and their length and first letter tell so before they are hashed.
class WordSet {
public:
    WordSet(std::vector<std::string> words);
    WordSet(std::initializer_list<std::string> words) : WordSet(std::vector<std::string>(words)) {}
    bool contains(std::string_view word) const { return may_contain(word) && words_.contains(word); }
    // Whether the word in small letters is in the set.
    bool contains_lower(std::string_view word) const;

private:
    static std::size_t length_of(std::string_view word) { return word.size() < 63 ? word.size() : 63; }
    bool may_contain(std::string_view word) const {
        return !word.empty() && (lengths_[lower(word[0]) & 127] >> length_of(word) & 1);
    }

    std::unordered_set<std::string, StringHash, std::equal_to<>> words_;
    std::array<std::uint64_t, 128> lengths_{};  // by first letter, a bit for each length
};

// Calls `read` for each stretch between separators, until it returns false.
template <typename Separator, typename Read>
void split(std::string_view text, Separator is_separator, Read read) {
    for (std::size_t start = 0; start < text.size(); ++start) {
        if (is_separator(text[start])) continue;
        std::size_t end = start + 1;
        while (end < text.size() && !is_separator(text[end])) ++end;
        if (!read(text.substr(start, end - start))) return;
        start = end;
    }
}

struct Span {
    std::size_t start, end;
};

// Index terms, as `terms` in projections/text/terms.py describes them.
class Terms {
public:
    // `operators` are stop words that are no names in capitals.
    Terms(WordSet stop_words, WordSet operators);
    ~Terms();

    // The terms of a text, in reading order; valid until the next call.
    const Strings& of(std::string_view text);

private:
    // A word of up to 15 characters and its stem, each filled up with zeros; the last byte is the length.
    struct Slot {
        std::array<std::uint64_t, 2> word, stem;
    };
    static constexpr std::size_t kSlots = 32768, kLongestKept = 15;
    static constexpr unsigned char kStopWord = 255;  // in the place of a stem's length

    void read_run(std::string_view run, bool is_name);
    void add_stem(std::string_view word, bool is_part = false);
    std::string_view stem(std::string_view word);

    WordSet stop_words_, operators_;
    std::unique_ptr<SN_env, void (*)(SN_env*)> stemmer_;
    std::vector<Slot> kept_;  // a word has one slot; a newer word takes it
    std::string plain_;       // the text without clitics
    Strings words_, terms_;
};

// What an index knows of a text, as `index_terms` in projections/nouns/index_entry.py puts it together.
class IndexTerms {
public:
    // `anchors` are the words that an expression of time has one of, `hints` what a text with one contains.
    struct Lists {
        WordSet stop_words, time_stems, numbers, selves, anchors;
        std::vector<std::string> hints, traits;  // first person, tells a time, asks, has a number
    };
    // `terms` has to stay alive.
    IndexTerms(Terms& terms, Lists lists);

    void read(std::string_view text);
    // Of the text that was read last: its terms; its traits; the stop words of its beginning that are not among them; the words
    // around what may name a time, in small letters.
    const Strings& terms() const { return *said_; }
    const Strings& leading_stop_words() const { return leading_; }
    const Strings& times() const { return times_; }
    const Strings& traits() const { return traits_; }

private:
    void read_beginning(std::string_view text);
    void read_times(std::string_view text);
    std::size_t count_selves(std::string_view text);

    Terms& reader_;
    Lists lists_;
    const Strings* said_ = nullptr;
    std::string lowered_;
    Strings leading_, times_, traits_;
};

// What a text names, as projections/text/words.py describes it: files, concepts, facts.
class Names {
public:
    // Word lists, all in small letters; `signatures` are what files in base64 begin with.
    struct Lists {
        WordSet stop_words, states, weighty, tools, extensions, dot_files;
        std::vector<std::string> signatures;
    };
    explicit Names(Lists lists);

    // Takes what was found, which may not be distinct; returns whether more is wanted.
    using Take = std::function<bool(std::string_view)>;

    // Of each, in order of appearance, at least until no more is wanted.
    void paths(std::string_view text, const Take& take) const;
    void concepts(std::string_view text, const Take& take) const;
    // Sentences, which are parts of the text.
    void facts(std::string_view text, const Take& take) const;
    // Whether one of the tokens is a word that gives a text weight.
    bool is_weighty(std::string_view text) const;
    bool is_tool(std::string_view name) const { return lists_.tools.contains_lower(name); }

private:
    bool is_base64(std::string_view word) const;
    bool is_term(std::string_view word) const;
    bool looks_like_path(std::string_view word) const;
    bool is_path(std::string_view word) const;
    bool read_paths(std::string_view word, const Take& take) const;

    Lists lists_;
};

// What payloads have that says nothing, as projections/text/payloads.py describes it.
class Payloads {
public:
    // `beginnings` are what files in base64 begin with, and what tools write around output and patches.
    explicit Payloads(std::vector<std::string> beginnings);

    // Whether there may be a data URL, base64 or a frame in a text.
    bool may_embed(std::string_view text) const;
    // Whether a text is sure to have none, and no JSON or marker either.
    bool is_plain(std::string_view text) const;

private:
    std::vector<std::string> beginnings_;
};

// Whether a text is a glob, a regular expression or a substitution.
bool is_pattern(std::string_view text);

// The part of a text where most of a query's terms are said, as `stretch_in_python` in terms.py gives it.
// `limit` is 2 at least, and the text is longer.
Span stretch(std::string_view text, const std::vector<std::string>& query_terms, std::size_t limit);

}  // namespace mnemolog
