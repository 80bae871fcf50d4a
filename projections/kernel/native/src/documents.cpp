#include "documents.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

namespace mnemolog {
namespace {

// Rules out most terms that are none of some thousand: a bit for each of 65,536 remainders.
class Maybe {
public:
    explicit Maybe(std::span<const std::uint32_t> terms) {
        for (const std::uint32_t term : terms) bits_[(term >> 6) & 1023] |= std::uint64_t{1} << (term & 63);
    }

    bool has(std::uint32_t term) const { return bits_[(term >> 6) & 1023] >> (term & 63) & 1; }

private:
    std::array<std::uint64_t, 1024> bits_{};
};

// Terms that are compared with every term of a document, four at a time; of more, most terms are ruled out first.
constexpr std::size_t kCompared = 12;

using Terms = std::vector<std::uint32_t>;  // distinct, ascending

Terms counted_terms(std::span<const std::uint32_t> row, const Repeats& repeats) {
    const std::size_t counted = std::min(row.size() - std::min(row.size(), repeats.without_last), repeats.most_terms);
    Terms terms(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(counted));
    std::sort(terms.begin(), terms.end());
    terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
    return terms;
}

std::size_t shared(const Terms& terms, const Terms& other) {
    std::size_t count = 0;
    for (auto left = terms.begin(), right = other.begin(); left != terms.end() && right != other.end();) {
        if (*left < *right) ++left;
        else if (*right < *left) ++right;
        else ++count, ++left, ++right;
    }
    return count;
}

bool alike(const Terms& terms, const Terms& other, double same_from) {
    const auto [shorter, longer] = std::minmax({terms.size(), other.size()});
    if (shorter == 0 || static_cast<double>(shorter) < same_from * static_cast<double>(longer)) return false;
    const std::size_t both = shared(terms, other);
    return static_cast<double>(both) >= same_from * static_cast<double>(shorter + longer - both);
}

}  // namespace

void hash_words(std::string_view words, std::vector<std::uint32_t>& hashes) {
    static const std::array<std::uint32_t, 256> table = [] {
        std::array<std::uint32_t, 256> remainders{};
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
            std::uint32_t remainder = byte;
            for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? 0xedb88320U : 0U);
            remainders[byte] = remainder;
        }
        return remainders;
    }();
    std::uint32_t hash = 0xffffffffU;
    bool inside = false;
    for (const char letter : words) {
        if (letter == ' ') {
            if (inside) hashes.push_back(~hash);
            hash = 0xffffffffU, inside = false;
            continue;
        }
        hash = hash >> 8 ^ table[(hash ^ static_cast<unsigned char>(letter)) & 0xff];
        inside = true;
    }
    if (inside) hashes.push_back(~hash);
}

std::vector<double> count_terms(const Documents& documents, std::span<const std::uint32_t> wanted) {
    std::vector<double> counts(documents.lengths.size() * wanted.size());
    const Maybe maybe(wanted);
    std::unordered_multimap<std::uint32_t, std::size_t> columns;
    for (const std::uint32_t term : wanted) columns.emplace(term, columns.size());
    std::size_t start = 0;
    for (std::size_t document = 0; document < documents.lengths.size(); ++document) {
        const auto row = documents.terms.subspan(start, static_cast<std::size_t>(documents.lengths[document]));
        start += row.size();
        double* count = counts.data() + document * wanted.size();
        if (wanted.size() <= kCompared) {
            for (std::size_t column = 0; column < wanted.size(); ++column)
                count[column] = static_cast<double>(std::count(row.begin(), row.end(), wanted[column]));
            continue;
        }
        for (const std::uint32_t term : row) {
            if (!maybe.has(term)) continue;
            for (auto [found, end] = columns.equal_range(term); found != end; ++found) ++count[found->second];
        }
    }
    return counts;
}

std::vector<std::uint8_t> say_in_order(const Documents& documents, std::span<const std::uint32_t> wanted,
                                       std::size_t without_last) {
    std::vector<std::uint8_t> say(documents.lengths.size());
    std::size_t start = 0;
    for (std::size_t document = 0; document < say.size(); ++document) {
        const auto length = static_cast<std::size_t>(documents.lengths[document]);
        const auto row = documents.terms.subspan(start, length - std::min(length, without_last));
        start += length;
        say[document] = !wanted.empty() && std::search(row.begin(), row.end(), wanted.begin(), wanted.end()) != row.end();
    }
    return say;
}

std::vector<std::int64_t> distinct(const Documents& documents, std::span<const std::int64_t> places, std::size_t limit,
                                   const Repeats& repeats) {
    std::vector<std::size_t> starts(documents.lengths.size());
    for (std::size_t i = 1; i < starts.size(); ++i)
        starts[i] = starts[i - 1] + static_cast<std::size_t>(documents.lengths[i - 1]);
    std::vector<std::int64_t> results;
    std::vector<Terms> said;
    std::unordered_map<std::uint32_t, std::vector<std::size_t>> having;
    for (const std::int64_t place : places) {
        const auto document = static_cast<std::size_t>(place);
        const auto length = static_cast<std::size_t>(documents.lengths[document]);
        Terms terms = counted_terms(documents.terms.subspan(starts[document], length), repeats);
        const std::span smallest(terms.data(), std::min(terms.size(), repeats.smallest));
        std::set<std::size_t> near;
        for (const std::uint32_t term : smallest)
            if (const auto found = having.find(term); found != having.end())
                near.insert(found->second.begin(), found->second.end());
        const auto same = std::find_if(near.begin(), near.end(), [&](std::size_t result) {
            return alike(terms, said[result], repeats.same_from);
        });
        if (same != near.end()) {
            results.push_back(static_cast<std::int64_t>(*same));
            continue;
        }
        if (said.size() == limit) break;
        results.push_back(static_cast<std::int64_t>(said.size()));
        for (const std::uint32_t term : smallest) having[term].push_back(said.size());
        said.push_back(std::move(terms));
    }
    return results;
}

}  // namespace mnemolog
