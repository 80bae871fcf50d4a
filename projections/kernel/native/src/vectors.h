// Products of packed vectors, and the nearest of many by the signs of their components.
//
// Layout: a vector is a row of `width` signed bytes; `scale` turns a row's whole numbers back into a vector of unit
// length. A document has `count[d]` rows from `first[d]` on; most have one. A query is `width` 16-bit numbers and a
// scale. All sums are of whole numbers, so they are exact in any order: every machine gives the same.
// A sign code has one bit per component, in words of 64 bits; the first component is the lowest bit of the first word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mnemolog {

// A row has at most so many components: 2 * 127 * 32767 * 4096 / 16 stays below 2^31, the limit of a lane of eight.
inline constexpr std::size_t kMaxWidth = 4096;

struct Vectors {
    const std::int8_t* rows;
    const float* scale;
    std::size_t row_count;
    std::size_t width;
    std::span<const std::int64_t> first;
    std::span<const std::int32_t> count;
};

// Rows of unit length as signed bytes, each with the scale that makes it of unit length again; `width` components each.
void quantize(std::span<const float> rows, std::size_t width, std::int8_t* packed, float* scale);

// A vector for each of some terms, which are hashes in ascending order; `row` is where in `vectors` it is.
struct TermVectors {
    std::span<const std::uint32_t> terms;
    std::span<const std::int64_t> row;
    const float* vectors;
    std::size_t width;
};

// The sum of the vectors of a document's terms, in their order; zeros for none.
void sum_of_terms(const TermVectors& table, std::span<const std::uint32_t> document, float* sum);

struct Query {
    std::vector<std::int16_t> components;
    double scale;
};

// A component that is not finite counts as 0.
Query quantized_query(std::span<const float> components);

// out[i] = the product of the query with the best row of documents[i]; nan for a document without rows.
// False, and `out` is incomplete, if a document's rows are not in the matrix.
bool best_products(const Vectors& vectors, std::span<const std::int64_t> documents, const Query& query, float* out);

// The places of the `most` largest numbers, the largest first, and of all that are as large as the last of them. Of equal
// ones the first place is first; nan has none.
std::vector<std::size_t> largest(std::span<const float> numbers, std::size_t most);

// The code of each row: which of its components exceed those of `mean`. `codes` has (width + 63) / 64 words a row.
void sign_codes(std::span<const std::int8_t> rows, std::span<const float> mean, std::uint64_t* codes);

struct Codes {
    const std::uint64_t* words;
    std::size_t per_row;
    // Of each row; a negative one has none.
    std::span<const std::int64_t> document;
};

// The rows of allowed documents whose codes differ from the query's in the fewest bits: up to `most`, ascending. Of
// those that are equally far at the end, the first. A document outside `allowed` is not allowed.
std::vector<std::int64_t> nearest_codes(const Codes& codes, std::span<const bool> allowed, const std::uint64_t* query,
                                        std::size_t most);

}  // namespace mnemolog
