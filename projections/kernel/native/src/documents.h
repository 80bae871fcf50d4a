// What the terms of some documents say, one document after the other: `lengths` terms each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mnemolog {

struct Documents {
    std::span<const std::uint32_t> terms;
    std::span<const std::int64_t> lengths;
};

// The terms of every document or author, by number, packed.
struct TermColumn {
    std::span<const std::uint32_t> terms;
    std::span<const std::int64_t> first, lengths;

    std::span<const std::uint32_t> operator[](std::size_t number) const {
        return terms.subspan(static_cast<std::size_t>(first[number]), static_cast<std::size_t>(lengths[number]));
    }
};

inline double times_said(std::span<const std::uint32_t> document, std::uint32_t term) {
    return static_cast<double>(std::count(document.begin(), document.end(), term));
}

// Appends the hash of each of some words, which single spaces separate: CRC-32 as zlib's, ISO 3309.
void hash_words(std::string_view words, std::vector<std::uint32_t>& hashes);

// (documents, wanted): how often each document says each of the wanted terms.
std::vector<double> count_terms(const Documents& documents, std::span<const std::uint32_t> wanted);

// For each document, whether it says these terms one right after the other, before its last `without_last`.
std::vector<std::uint8_t> say_in_order(const Documents& documents, std::span<const std::uint32_t> wanted,
                                       std::size_t without_last);

// Which documents repeat an earlier one.
struct Repeats {
    double same_from;          // Jaccard similarity of the distinct terms from which one repeats another
    std::size_t without_last;  // terms at the end that do not count
    std::size_t most_terms;    // terms that count, from the beginning
    std::size_t smallest;      // of two that are so alike, one of the smallest terms of each is the same
};

// For each of `places`, in order, the number of the result that it repeats, or its own number if it is a new result.
// Ends before the result after the first `limit`. Every place must be below the number of documents.
std::vector<std::int64_t> distinct(const Documents& documents, std::span<const std::int64_t> places, std::size_t limit,
                                   const Repeats& repeats);

}  // namespace mnemolog
