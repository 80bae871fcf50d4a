// `index [inputs] [seed]`: made-up arrays through every function that finds and ranks documents, built with sanitizers,
// and compared with the plainest way to compute the same. All arrays fit together: module.cpp sees to that. They are of
// exactly their size, so that a look behind an end is noticed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "candidates.h"
#include "documents.h"
#include "postings.h"
#include "ranking.h"
#include "results.h"
#include "vectors.h"
#include "dice.h"

namespace {

using namespace mnemolog;

using Hashes = std::vector<std::uint32_t>;

template <typename Make>
auto many(std::size_t count, Make make) {
    std::vector<decltype(make())> made;
    made.reserve(count);
    while (made.size() < count) made.push_back(make());
    return made;
}

struct Flags {
    Flags(Dice& dice, std::size_t count) : values(new bool[count]), size(count) {
        const std::size_t of = 1 + dice.below(4);
        for (std::size_t i = 0; i < count; ++i) values[i] = dice.below(of) == 0;
    }
    std::span<const bool> span() const { return {values.get(), size}; }
    bool has(std::size_t place) const { return place < size && values[place]; }

    std::unique_ptr<bool[]> values;
    std::size_t size;
};

// Few different hashes, so that documents share terms, among them those that a table could confuse.
std::uint32_t made_hash(Dice& dice) {
    constexpr std::uint32_t kEnds[] = {0, 1, 0xffffffff, 0x80000000, 1024, 2048, 64, 4096};
    if (dice.rarely()) return static_cast<std::uint32_t>(dice.number());
    return dice.below(3) ? static_cast<std::uint32_t>(dice.below(12)) * 0x01010101U : dice.one_of(kEnds);
}

Hashes made_hashes(Dice& dice, std::size_t most) {
    return many(dice.below(most + 1), [&] { return made_hash(dice); });
}

// Documents, one after the other, as the index keeps them.
struct Texts {
    Texts(Dice& dice, std::size_t count, std::size_t longest) {
        for (std::size_t i = 0; i < count; ++i) {
            // every other one much like one before
            const std::size_t most = dice.rarely() ? 300 : longest;
            Hashes row = i > 0 && dice.below(2) ? rows[dice.below(i)] : made_hashes(dice, most);
            if (!row.empty()) row[dice.below(row.size())] = made_hash(dice);
            rows.push_back(std::move(row));
        }
        for (const Hashes& row : rows) {
            terms.insert(terms.end(), row.begin(), row.end());
            lengths.push_back(static_cast<std::int64_t>(row.size()));
        }
        terms.shrink_to_fit();
        lengths.shrink_to_fit();
    }
    Documents documents() const { return {terms, lengths}; }

    std::vector<Hashes> rows;
    Hashes terms;
    std::vector<std::int64_t> lengths;
};

std::string made_word(Dice& dice) {
    constexpr std::string_view kLetters[] = {"a", "b", "e", "n", "t", "z", "_", "ä", "日", "😀", "\x80", "\xff", "\xe6"};
    const std::size_t plain = dice.below(3) ? 6 : std::size(kLetters);  // most words are of ASCII letters
    std::string word;
    for (std::size_t left = dice.rarely() ? 60 + dice.below(8) : dice.below(9); left > 0; --left)
        word += kLetters[dice.below(plain)];
    if (dice.rarely()) word += "1-\x01"[dice.below(3)];
    return word;
}

// What was added to postings, in the order of the documents.
struct Added {
    struct Document {
        std::uint32_t number;
        std::map<std::uint32_t, std::size_t> times;
    };
    std::vector<Document> documents;

    std::size_t times(const Document& document, std::uint32_t term) const {
        const auto found = document.times.find(term);
        return found == document.times.end() ? 0 : found->second;
    }
};

void add_documents(Dice& dice, Postings& postings, Added& added) {
    const std::size_t count = dice.below(30), longest = dice.below(500) ? 12 : 2'000;
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
        number += static_cast<std::uint32_t>((i > 0) + dice.below(3) + (dice.rarely() ? 1U << 24 : 0));
        Hashes terms = made_hashes(dice, longest);
        if (longest > 12) terms = many(longest, [&] { return static_cast<std::uint32_t>(dice.number()); });
        if (dice.below(1'000) == 0) terms.resize(dice.below(20'000), made_hash(dice));  // one term very often
        std::string words;
        if (dice.below(3))
            for (std::size_t term = 0; term < terms.size(); ++term) words += (term ? " " : "") + made_word(dice);
        postings.add(number, terms, words);
        auto& times = added.documents.emplace_back(Added::Document{number, {}}).times;
        for (const std::uint32_t term : terms) ++times[term];
        if (dice.rarely()) postings.add_word(made_hash(dice), made_word(dice));
    }
}

void ask_postings(Dice& dice, Postings& postings, const Added& added) {
    const Flags allowed(dice, dice.below(70));
    const Hashes terms = made_hashes(dice, 10);
    const auto lengths = many(allowed.size + dice.below(2), [&] { return static_cast<std::int64_t>(dice.below(400)); });
    const auto idf = many(terms.size(), [&] {
        constexpr double kEnds[] = {0, 1, 1e-300, 1e300, std::numeric_limits<double>::infinity()};
        return dice.below(4) ? 1 + dice.fraction() : dice.one_of(kEnds);
    });
    const double average_length = 1.0 + static_cast<double>(dice.below(90));
    const Bm25 bm25{idf, dice.below(3) ? 1.2 : 0.0, dice.below(3) ? 0.75 : 1.0, average_length};
    const std::size_t least = dice.below(4), most = dice.below(12);
    const auto times = static_cast<std::int64_t>(dice.below(6)), beside = static_cast<std::int64_t>(dice.below(20));

    std::vector<std::int64_t> frequencies(terms.size()), saying, mostly;
    std::vector<double> scores;
    for (const Added::Document& document : added.documents) {
        if (!allowed.has(document.number)) continue;
        std::size_t said = 0, counted = 0;
        double score = 0;
        const double length = static_cast<double>(lengths[document.number]);
        const double norm = bm25.k1 * (1 - bm25.b + bm25.b * length / bm25.average_length);
        for (std::size_t i = 0; i < terms.size(); ++i) {
            const std::size_t count = added.times(document, terms[i]);
            if (count == 0) continue;
            ++frequencies[i], ++said, counted += count;
            score += idf[i] * static_cast<double>(count) / (static_cast<double>(count) + norm);
        }
        if (said == 0 || said < least) continue;
        saying.push_back(document.number);
        scores.push_back(score);
        if (times * static_cast<std::int64_t>(counted) >= lengths[document.number] - beside)
            mostly.push_back(document.number);
    }
    Scored expected{saying, scores};
    if (most > 0 && most < saying.size()) {
        std::vector<double> ordered = scores;
        std::sort(ordered.begin(), ordered.end(), std::greater<>());
        expected = {};
        for (std::size_t i = 0; i < saying.size(); ++i) {
            if (scores[i] < ordered[most - 1]) continue;
            expected.documents.push_back(saying[i]);
            expected.scores.push_back(scores[i]);
        }
    }
    const Question question{terms, allowed.span(), lengths};
    require(postings.frequencies(question) == frequencies, "frequencies");
    const Scored best = postings.best(question, bm25, least, most);
    require(best.documents == expected.documents && best.scores == expected.scores, "best");
    require(postings.mostly(question, least, times, beside) == mostly, "mostly");
}

void ask_words(Dice& dice, const Postings& postings) {
    const auto kept = postings.words();
    std::set<std::string> known;
    for (const auto& [term, word] : kept) known.insert(word);
    const auto is_sorted_and_known = [&](const std::vector<std::string>& words) {
        return std::is_sorted(words.begin(), words.end()) &&
               std::all_of(words.begin(), words.end(), [&](const std::string& word) { return known.contains(word); });
    };
    require(is_sorted_and_known(postings.similar(made_word(dice), dice.below(3))), "similar gives other words");
    if (kept.empty()) return;
    std::string word = dice.one_of(kept).second;
    const auto finds = [&](const std::string& asked, std::size_t edits) {
        const auto found = postings.similar(asked, edits);
        return std::find(found.begin(), found.end(), word) != found.end();
    };
    require(finds(word, dice.below(3)), "similar does not give the word itself", word.c_str());
    if (word.size() < 3 || std::any_of(word.begin(), word.end(), [](char letter) { return letter < 0; })) return;
    const std::size_t place = 1 + dice.below(word.size() - 2);
    std::string swapped = word, shorter = word, longer = word;
    std::swap(swapped[place], swapped[place + 1]);
    shorter.erase(place, 1);
    longer.insert(place, 1, 'q');
    require(finds(swapped, 1) && finds(shorter, 1), "similar does not give a word one letter away", word.c_str());
    require(finds(longer, 1) == (longer.size() <= kLongestWord), "similar and a letter too many", word.c_str());
}

void read_postings(Dice& dice) {
    Postings postings;
    Added added;
    add_documents(dice, postings, added);
    for (int question = 0; question < 2; ++question) ask_postings(dice, postings, added);
    ask_words(dice, postings);
}

void read_counts(Dice& dice) {
    const Texts texts(dice, dice.below(12), 20);
    const Hashes wanted = made_hashes(dice, 6);
    std::vector<double> expected;
    for (const Hashes& row : texts.rows)
        for (const std::uint32_t term : wanted)
            expected.push_back(static_cast<double>(std::count(row.begin(), row.end(), term)));
    require(count_terms(texts.documents(), wanted) == expected, "count_terms");
    const std::size_t last = dice.below(4);
    const auto in_order = say_in_order(texts.documents(), wanted, last);
    for (std::size_t document = 0; document < texts.rows.size(); ++document) {
        const Hashes& row = texts.rows[document];
        bool says = false;
        for (std::size_t at = 0; !wanted.empty() && at + wanted.size() + last <= row.size(); ++at)
            says |= std::equal(wanted.begin(), wanted.end(), row.begin() + static_cast<std::ptrdiff_t>(at));
        require(in_order[document] == says, "say_in_order");
    }
}

void read_repeats(Dice& dice) {
    const Texts texts(dice, 1 + dice.below(20), dice.below(2) ? 8 : 40);
    const auto places = many(dice.below(25), [&] { return static_cast<std::int64_t>(dice.below(texts.rows.size())); });
    constexpr double kSame[] = {0.5, 0.8, 0.85, 1.0};
    const bool all_are_compared = dice.below(2);
    const Repeats repeats{dice.one_of(kSame), dice.below(4), dice.below(3) ? 1'000 : dice.below(20),
                          all_are_compared ? 1'000'000 : dice.below(5)};
    const std::size_t limit = dice.below(12);
    std::vector<std::int64_t> expected;
    std::vector<std::set<std::uint32_t>> said;
    for (const std::int64_t place : places) {
        const Hashes& row = texts.rows[static_cast<std::size_t>(place)];
        const std::size_t text = row.size() < repeats.without_last ? 0 : row.size() - repeats.without_last;
        const auto counted = static_cast<std::ptrdiff_t>(std::min(text, repeats.most_terms));
        const std::set<std::uint32_t> terms(row.begin(), row.begin() + counted);
        const auto same = std::find_if(said.begin(), said.end(), [&](const auto& other) {
            const auto both =
                std::count_if(terms.begin(), terms.end(), [&](std::uint32_t term) { return other.contains(term); });
            const auto either = static_cast<std::ptrdiff_t>(terms.size() + other.size()) - both;
            return both > 0 && static_cast<double>(both) >= repeats.same_from * static_cast<double>(either);
        });
        if (same == said.end() && said.size() == limit) break;
        expected.push_back(same - said.begin());
        if (same == said.end()) said.push_back(terms);
    }
    const auto results = distinct(texts.documents(), places, limit, repeats);
    require(!all_are_compared || results == expected, "distinct");
    std::int64_t next = 0;
    for (const std::int64_t result : results) {
        require(result >= 0 && result <= next, "distinct gives a result that does not exist yet");
        next += result == next;
    }
    require(next <= static_cast<std::int64_t>(limit), "distinct gives too many results");
}

std::size_t made_width(Dice& dice) {
    constexpr std::size_t kEnds[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 4096};
    return dice.below(100) == 0 ? dice.one_of(kEnds) : 1 + dice.below(70);
}

void read_vectors(Dice& dice) {
    const std::size_t width = made_width(dice), rows = dice.below(9);
    constexpr float kSizes[] = {1, 1, 0, 1e-30F, 1e30F};
    std::vector<float> components;
    for (std::size_t row = 0; row < rows; ++row)
        for (const float of = dice.one_of(kSizes); components.size() < (row + 1) * width;)
            components.push_back(of * (dice.rarely() ? 1 : static_cast<float>(dice.fraction())));
    std::vector<std::int8_t> packed(components.size());
    std::vector<float> scale(rows);
    quantize(components, width, packed.data(), scale.data());
    for (std::size_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (std::size_t i = row * width; i < (row + 1) * width; ++i) squares += packed[i] * packed[i];
        require(squares == 0 ? scale[row] == 1 : std::abs(squares * scale[row] * scale[row] - 1) < 1e-5, "quantize");
        require(std::count(packed.begin(), packed.end(), -128) == 0, "a component is too small");
    }
    const auto first = many(dice.below(6), [&] { return static_cast<std::int64_t>(dice.below(rows + 2)) - 1; });
    const auto count = many(first.size(), [&] { return static_cast<std::int32_t>(dice.below(4)) - 1; });
    const auto asked = many(dice.below(8), [&] { return static_cast<std::int64_t>(dice.below(9)) - 1; });
    const auto query = many(width, [&] {
        return static_cast<std::int16_t>(dice.rarely() ? 32767 : 32767 * dice.fraction());
    });
    const auto document_of = [&](std::int64_t of) { return static_cast<std::size_t>(of); };
    const auto has_rows = [&](std::int64_t of) { return document_of(of) < count.size() && count[document_of(of)] > 0; };
    bool within = true;
    for (const std::int64_t of : asked)
        if (has_rows(of))
            within &= first[document_of(of)] >= 0 &&
                      static_cast<std::size_t>(first[document_of(of)] + count[document_of(of)]) <= rows;
    std::vector<float> out(asked.size());
    const Query wanted{query, 1.0 / 32767};
    const Vectors vectors{packed.data(), scale.data(), rows, width, first, count};
    require(best_products(vectors, asked, wanted, out.data()) == within, "best_products and rows that are not there");
    for (std::size_t i = 0; within && i < asked.size(); ++i) {
        float best = -std::numeric_limits<float>::infinity();
        for (std::int32_t row = 0; has_rows(asked[i]) && row < count[document_of(asked[i])]; ++row) {
            const auto at = static_cast<std::size_t>(first[document_of(asked[i])] + row);
            std::int64_t sum = 0;
            for (std::size_t j = 0; j < width; ++j) sum += packed[at * width + j] * query[j];
            best = std::max(best, static_cast<float>(static_cast<double>(sum) * scale[at] * wanted.scale));
        }
        require(has_rows(asked[i]) ? out[i] == best : std::isnan(out[i]), "best_products");
    }
}

void read_codes(Dice& dice) {
    const std::size_t width = made_width(dice), rows = dice.below(40), words = (width + 63) / 64;
    const auto matrix = many(rows * width, [&] {
        return static_cast<std::int8_t>(dice.below(3) ? dice.below(256) : 0);
    });
    const auto mean = many(width, [&] {
        constexpr float kEnds[] = {0, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()};
        return dice.below(3) ? 50 * static_cast<float>(dice.fraction()) : dice.one_of(kEnds);
    });
    std::vector<std::uint64_t> codes(rows * words);
    sign_codes(matrix, mean, codes.data());
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t i = 0; i < 64 * words; ++i)
            require((codes[row * words + i / 64] >> (i % 64) & 1) == (i < width && matrix[row * width + i] > mean[i]),
                    "sign_codes");

    const auto document = many(rows, [&] { return static_cast<std::int64_t>(dice.below(20)) - 1; });
    const Flags allowed(dice, dice.below(20));
    auto query = many(words, [&] { return dice.number(); });
    if (rows > 0 && dice.below(2)) std::copy_n(codes.begin(), words, query.begin());
    const std::size_t most = dice.below(12) ? dice.below(rows + 2) : std::numeric_limits<std::size_t>::max();
    std::vector<std::pair<int, std::int64_t>> away;
    for (std::size_t row = 0; row < rows; ++row) {
        if (document[row] < 0 || !allowed.has(static_cast<std::size_t>(document[row]))) continue;
        int bits = 0;
        for (std::size_t word = 0; word < words; ++word)
            bits += __builtin_popcountll(codes[row * words + word] ^ query[word]);
        away.emplace_back(bits, row);
    }
    std::sort(away.begin(), away.end());
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < std::min(most, away.size()); ++i) expected.push_back(away[i].second);
    std::sort(expected.begin(), expected.end());
    require(nearest_codes({codes.data(), words, document}, allowed.span(), query.data(), most) == expected,
            "nearest_codes");
}

void read_sums(Dice& dice) {
    const std::size_t width = dice.below(20), rows = 1 + dice.below(5);
    const Hashes some = made_hashes(dice, 20);
    const std::set<std::uint32_t> ordered(some.begin(), some.end());
    const Hashes terms(ordered.begin(), ordered.end());
    const auto row = many(terms.size(), [&] { return static_cast<std::int64_t>(dice.below(rows)); });
    const auto vectors = many(rows * width, [&] { return static_cast<float>(dice.fraction()); });
    const Hashes document = made_hashes(dice, 20);
    std::vector<float> sum(width), expected(width);
    sum_of_terms({terms, row, vectors.data(), width}, document, sum.data());
    for (const std::uint32_t term : document)
        for (std::size_t i = 0; i < terms.size(); ++i)
            for (std::size_t j = 0; terms[i] == term && j < width; ++j)
                expected[j] += vectors[static_cast<std::size_t>(row[i]) * width + j];
    require(sum == expected, "sum_of_terms");
}

void read_query(Dice& dice) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float kNumbers[] = {0, 1e-38F, 1, 1e38F, nan, std::numeric_limits<float>::infinity()};
    const auto number = [&] { return dice.below(3) ? static_cast<float>(dice.fraction()) : dice.one_of(kNumbers); };
    const Query query = quantized_query(many(made_width(dice), number));
    require(std::count(query.components.begin(), query.components.end(), -32768) == 0, "quantized_query");
    const auto numbers = many(dice.below(20), number);
    const std::size_t most = dice.below(22);
    const auto places = largest(numbers, most);
    const auto finite = numbers.size() - static_cast<std::size_t>(
        std::count_if(numbers.begin(), numbers.end(), [](float value) { return std::isnan(value); }));
    require(places.size() >= std::min(most, finite) && places.size() <= finite, "largest gives too few or too many");
    for (std::size_t i = 1; i < places.size(); ++i) {
        const float before = numbers[places[i - 1]], value = numbers[places[i]];
        require(before > value || (before == value && places[i - 1] < places[i]), "largest has another order");
        require(most == 0 || i < most || value == numbers[places[most - 1]], "largest gives smaller numbers");
    }
}

// The columns of an index, with a vector of each kind for most documents.
struct Columns {
    explicit Columns(Dice& dice)
        : size(1 + dice.below(dice.below(20) ? 12 : 80)), width(1 + dice.below(9)), texts(dice, size, 25), names(dice, 3, 2),
          first(starts(texts)), first_of_names(starts(names)),
          vectors(many(size, [&] { return static_cast<std::int32_t>(dice.below(3) > 0); })),
          matrix(many(size * width, [&] { return static_cast<std::int8_t>(dice.below(255)); })), scale(size, 0.01F),
          id_key(many(size, [&] { return static_cast<std::uint64_t>("mols"[dice.below(4)]) << 56 | dice.below(30); })),
          episode(many(size, [&] { return static_cast<std::int32_t>(dice.below(5)) - 1; })),
          sequence(many(size, [&] { return static_cast<std::int32_t>(dice.rarely() ? ~0U >> 1 : dice.below(9)); })),
          author(many(size, [&] { return static_cast<std::int32_t>(dice.below(3)); })),
          occurred_ms(many(size, [&] { return static_cast<std::int64_t>(dice.rarely() ? dice.number() >> 2 : dice.below(9)); })),
          importance(many(size, [&] { return static_cast<float>(dice.below(11)); })) {
        for (std::size_t i = 0; i < size; ++i) places.push_back(static_cast<std::int64_t>(i));
    }

    static std::vector<std::int64_t> starts(const Texts& texts) {
        std::vector<std::int64_t> first(texts.lengths.size());
        std::exclusive_scan(texts.lengths.begin(), texts.lengths.end(), first.begin(), std::int64_t{0});
        return first;
    }
    Rows rows() const {
        const Vectors all{matrix.data(), scale.data(), size, width, places, vectors};
        return {{texts.terms, first, texts.lengths}, all, all, id_key, episode, sequence, author, occurred_ms, importance,
                {names.terms, first_of_names, names.lengths}};
    }
    std::vector<float> query(Dice& dice) const {
        return many(dice.below(4) ? width : 0, [&] { return static_cast<float>(dice.fraction()); });
    }

    std::size_t size, width;
    Texts texts, names;
    std::vector<std::int64_t> first, first_of_names;
    std::vector<std::int32_t> vectors;
    std::vector<std::int8_t> matrix;
    std::vector<float> scale;
    std::vector<std::uint64_t> id_key;
    std::vector<std::int32_t> episode, sequence, author;
    std::vector<std::int64_t> occurred_ms;
    std::vector<float> importance;
    std::vector<std::int64_t> places;
};

void read_results(Dice& dice) {
    const Columns columns(dice);
    constexpr Mode kModes[] = {Mode::kHybrid, Mode::kLexical, Mode::kVector};
    const Mode mode = dice.one_of(kModes);
    const Hashes some = made_hashes(dice, mode == Mode::kVector ? 0 : dice.rarely() ? 70 : 6);
    const std::set<std::uint32_t> ordered(some.begin(), some.end());
    const Hashes terms(ordered.begin(), ordered.end()), traits = many(kTraits, [&] { return made_hash(dice); });
    const std::size_t n = terms.size(), limit = dice.below(12);
    const auto weight = [&] { return 3 * dice.fraction(); };
    const auto positive = [&] { return static_cast<double>(dice.below(4)); };
    const auto confidence = many(columns.size, positive), times = many(n, positive), idf = many(n, positive);
    const auto features = many(2 * kFeatures, weight), kind = many(kKinds, weight), answerable = many(kAnswerable, weight);
    const auto share = many(2, weight), trust = many(n, positive);
    const auto query = columns.query(dice), static_query = columns.query(dice);
    const Flags in_table(dice, n), counted(dice, n), numbers(dice, n), flags(dice, 10);
    const Texts dates(dice, dice.below(3), 3), identifiers(dice, dice.below(3), 3), names(dice, dice.below(2), 2);
    const auto values = many(2 * n, [&] { return static_cast<std::int64_t>(dice.below(2)); });
    const auto moment = [&] { return static_cast<std::int64_t>(dice.below(9)); };
    const bool* const is = flags.values.get();
    const Cues cues{positive(), 1, positive(), 1, positive(), 1, 1, 1, 1};
    const Results results = results_of(
        columns.rows(), columns.places, confidence,
        {{mode, terms, times, traits, positive(), cues, traits}, {features, kind}, answerable, share, query, static_query,
         {idf, in_table.span(), trust}, counted.span(), numbers.span(), moment(), moment(), dates.documents(),
         identifiers.documents(), positive(), names.documents(), is[0], is[1], is[2], is[3], is[4], is[5], limit,
         positive() - 1, positive() / 3, moment(), {mode == Mode::kHybrid, is[6], is[7], is[8], is[9], terms, values}});
    for (const auto& numbers : {results.scores.features, results.scores.final, results.evidence})
        require(std::all_of(numbers.begin(), numbers.end(), [](double it) { return std::isfinite(it); }), "results");
    require(results.scores.said == count_terms(columns.texts.documents(), terms), "results_of counts other terms");
    const std::set<std::int64_t> places(results.places.begin(), results.places.end());
    require(places.size() == results.places.size(), "results_of gives a document twice");
    for (std::size_t i = 0; i < results.places.size(); ++i) {
        require(results.numbers[i] < static_cast<std::int64_t>(limit), "results_of gives too many");
        require(i == 0 || results.parts[i * kParts] <= results.parts[(i - 1) * kParts], "results are in another order");
    }
}

void read_candidates(Dice& dice) {
    const Columns columns(dice);
    Postings postings;
    for (std::size_t i = 0; i < columns.size; ++i) postings.add(static_cast<std::uint32_t>(i), columns.texts.rows[i], "");
    const Hashes terms = made_hashes(dice, 4);
    const auto idf = many(terms.size(), [&] { return std::abs(dice.fraction()); });
    const Flags allowed(dice, columns.size), fewer(dice, columns.size);
    const auto leg = [&](const Flags& flags, bool few) {
        const std::span<const std::int64_t> every = columns.places;
        return Leg{flags.span(), few ? every : every.first(0), {idf, 0.9, 0.4, 8}, every, every};
    };
    const auto beside = many(columns.size, [&] { return static_cast<std::int32_t>(dice.below(columns.size + 1)) - 1; });
    const auto query = columns.query(dice), static_query = columns.query(dice);
    const std::size_t most = dice.below(columns.size + 2);
    const auto pool = candidates(columns.rows(), postings, {beside, beside},
                                 std::vector{leg(allowed, dice.below(2)), leg(fewer, dice.below(2))},
                                 {terms, query, static_query, most, most});
    for (std::size_t i = 1; i < pool.size(); ++i) {
        const auto key = [&](std::size_t at) { return columns.id_key[static_cast<std::size_t>(pool[at])]; };
        require(pool[i - 1] != pool[i] && key(i - 1) <= key(i), "candidates");
    }
}

}  // namespace

int main(int count, char** arguments) {
    constexpr void (*kReaders[])(Dice&) = {read_postings, read_counts, read_repeats, read_vectors, read_codes,
                                           read_sums,     read_query,  read_results, read_candidates};
    return run(count, arguments, "arrays", [&](Dice& dice) { dice.one_of(kReaders)(dice); });
}
