// The documents that are compared for a question: the best by its words, the nearest to its vectors, and their neighbors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "postings.h"
#include "results.h"

namespace mnemolog {

// What documents that a question may find say and mean: of all of them, or of those of one time.
struct Leg {
    std::span<const bool> allowed;
    std::span<const std::int64_t> documents;  // all of them, where they are few enough to be read; else empty
    Bm25 bm25;
    // Documents among which the nearest are.
    std::span<const std::int64_t> near_model, near_static;
};

struct Neighbors {
    std::span<const std::int32_t> earlier, later;  // of each document in its episode; -1 for none
};

struct Wanted {
    std::span<const std::uint32_t> terms;
    std::span<const float> vector, static_vector;  // empty: none
    std::size_t by_words, by_meaning;              // how many of each
};

// The candidates of all legs and the documents beside them, in the order of `id_key`. Of documents that are equally good
// at the end, those with the smallest keys.
std::vector<std::int64_t> candidates(const Rows& rows, Postings& postings, const Neighbors& neighbors,
                                     std::span<const Leg> legs, const Wanted& wanted);

}  // namespace mnemolog
