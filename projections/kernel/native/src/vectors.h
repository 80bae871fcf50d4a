// Products of packed vectors, and the nearest of many by the signs of their components.
//
// Layout: vectors are rows of `width` signed bytes, one after the other. A query is `width` 16-bit numbers. All sums are
// of whole numbers, so they are exact in any order: every machine, and the reference, gives the same.
// A sign code has one bit per component, in words of 64 bits; the first component is the lowest bit of the first word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mnemolog {

// A row has at most so many components: 127 * 32767 * 4096 / 8 stays below 2^31, the limit of a lane of eight.
inline constexpr std::size_t kMaxWidth = 4096;

struct Rows {
    const std::int8_t* data;
    std::size_t count;
    std::size_t width;
};

// out[i] = product of row rows[i] and the query. Every rows[i] must be below `matrix.count`.
void products(const Rows& matrix, std::span<const std::int64_t> rows, const std::int16_t* query, std::int64_t* out);

// The rows, of those in `rows`, whose codes differ from the query's in the fewest bits: up to `count`, in ascending
// order. Of those that are equally far at the end, those that come first in `rows`.
std::vector<std::int64_t> nearest_codes(const std::uint64_t* codes, std::size_t words,
                                        std::span<const std::int64_t> rows, const std::uint64_t* query,
                                        std::size_t count);

}  // namespace mnemolog
