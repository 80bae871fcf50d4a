#include "vectors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#if defined(__x86_64__) && defined(__GNUC__)
#define MNEMOLOG_X86 1
#include <immintrin.h>
#endif

namespace mnemolog {
namespace {

std::int64_t product_portable(const std::int8_t* row, const std::int16_t* query, std::size_t width) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::int32_t{row[i]} * query[i];
    return sum;
}

#ifdef MNEMOLOG_X86
// Sixteen components at a time: bytes widened to 16 bits, multiplied, and added in pairs to eight lanes of 32 bits.
__attribute__((target("avx2"))) std::int64_t product_avx2(const std::int8_t* row, const std::int16_t* query,
                                                          std::size_t width) {
    __m256i lanes = _mm256_setzero_si256();
    std::size_t i = 0;
    for (; i + 16 <= width; i += 16) {
        const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i)));
        const __m256i asked = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + i));
        lanes = _mm256_add_epi32(lanes, _mm256_madd_epi16(bytes, asked));
    }
    alignas(32) std::int32_t lane[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lane), lanes);
    std::int64_t sum = 0;
    for (const std::int32_t value : lane) sum += value;
    return sum + product_portable(row + i, query + i, width - i);
}
#endif

using Product = std::int64_t (*)(const std::int8_t*, const std::int16_t*, std::size_t);

Product fastest_product() {
#ifdef MNEMOLOG_X86
    if (__builtin_cpu_supports("avx2")) return product_avx2;
#endif
    return product_portable;
}

// Of a row's largest component: what is smaller would become infinite.
constexpr float kSmallest = 1e-30F;

inline constexpr std::uint16_t kExcluded = std::numeric_limits<std::uint16_t>::max();

// Inlined into both functions below, so that each counts bits with the instructions of its own target.
__attribute__((always_inline)) inline void measure(const Codes& codes, std::span<const bool> allowed,
                                                   const std::uint64_t* query, std::uint16_t* away) {
    for (std::size_t row = 0; row < codes.document.size(); ++row) {
        const auto document = static_cast<std::size_t>(codes.document[row]);  // a negative one becomes too large
        if (document >= allowed.size() || !allowed[document]) {
            away[row] = kExcluded;
            continue;
        }
        std::uint64_t bits = 0;
        for (std::size_t word = 0; word < codes.per_row; ++word)
            bits += static_cast<std::uint64_t>(__builtin_popcountll(codes.words[row * codes.per_row + word] ^ query[word]));
        away[row] = static_cast<std::uint16_t>(bits);
    }
}

void measure_portable(const Codes& codes, std::span<const bool> allowed, const std::uint64_t* query,
                      std::uint16_t* away) {
    measure(codes, allowed, query, away);
}

#ifdef MNEMOLOG_X86
__attribute__((target("popcnt"))) void measure_popcnt(const Codes& codes, std::span<const bool> allowed,
                                                      const std::uint64_t* query, std::uint16_t* away) {
    measure(codes, allowed, query, away);
}
#endif

}  // namespace

void quantize(std::span<const float> rows, std::size_t width, std::int8_t* packed, float* scale) {
    for (std::size_t start = 0, row = 0; start < rows.size(); start += width, ++row) {
        float largest = 0;
        for (std::size_t i = start; i < start + width; ++i) largest = std::max(largest, std::abs(rows[i]));
        const float factor = 127.0F / (largest > kSmallest ? largest : 1.0F);
        std::int64_t squares = 0;
        for (std::size_t i = start; i < start + width; ++i) {
            packed[i] = static_cast<std::int8_t>(std::nearbyint(rows[i] * factor));
            squares += std::int32_t{packed[i]} * packed[i];
        }
        scale[row] = static_cast<float>(1 / (squares > 0 ? std::sqrt(static_cast<double>(squares)) : 1.0));
    }
}

void sum_of_terms(const TermVectors& table, std::span<const std::uint32_t> document, float* sum) {
    std::fill(sum, sum + table.width, 0.0F);
    for (const std::uint32_t term : document) {
        const auto found = std::lower_bound(table.terms.begin(), table.terms.end(), term);
        if (found == table.terms.end() || *found != term) continue;
        const auto row = static_cast<std::size_t>(table.row[static_cast<std::size_t>(found - table.terms.begin())]);
        const float* vector = table.vectors + row * table.width;
        for (std::size_t i = 0; i < table.width; ++i) sum[i] += vector[i];
    }
}

Query quantized_query(std::span<const float> components) {
    float largest = 0;
    for (const float value : components)
        if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    Query query{std::vector<std::int16_t>(components.size()), largest > kSmallest ? largest / 32767.0 : 1.0};
    for (std::size_t i = 0; i < components.size(); ++i)
        if (std::isfinite(components[i]))
            query.components[i] = static_cast<std::int16_t>(std::nearbyint(components[i] / static_cast<float>(query.scale)));
    return query;
}

std::vector<std::size_t> largest(std::span<const float> numbers, std::size_t most) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        if (!std::isnan(numbers[i])) places.push_back(i);
    if (places.size() > most && most > 0) {
        std::vector<float> values;
        for (const std::size_t place : places) values.push_back(numbers[place]);
        const auto last = values.begin() + static_cast<std::ptrdiff_t>(most - 1);
        std::nth_element(values.begin(), last, values.end(), std::greater<>());
        std::erase_if(places, [&, least = *last](std::size_t place) { return numbers[place] < least; });
    }
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t left, std::size_t right) { return numbers[left] > numbers[right]; });
    return places;
}

bool best_products(const Vectors& vectors, std::span<const std::int64_t> documents, const Query& query, float* out) {
    static const Product product = fastest_product();
    for (std::size_t i = 0; i < documents.size(); ++i) {
        out[i] = std::numeric_limits<float>::quiet_NaN();
        const auto document = static_cast<std::size_t>(documents[i]);
        if (document >= vectors.count.size() || vectors.count[document] <= 0) continue;
        const auto first = static_cast<std::size_t>(vectors.first[document]);
        const auto end = first + static_cast<std::size_t>(vectors.count[document]);
        if (first > vectors.row_count || end > vectors.row_count) return false;
        float best = -std::numeric_limits<float>::infinity();
        for (std::size_t row = first; row < end; ++row) {
            const std::int64_t sum = product(vectors.rows + row * vectors.width, query.components.data(), vectors.width);
            best = std::max(best, static_cast<float>(static_cast<double>(sum) * vectors.scale[row] * query.scale));
        }
        out[i] = best;
    }
    return true;
}

void sign_codes(std::span<const std::int8_t> rows, std::span<const float> mean, std::uint64_t* codes) {
    const std::size_t width = mean.size(), words = (width + 63) / 64;
    for (std::size_t row = 0; row * width < rows.size(); ++row) {
        for (std::size_t word = 0; word < words; ++word) {
            std::uint64_t bits = 0;
            const std::size_t begin = 64 * word, end = std::min(width, begin + 64);
            for (std::size_t i = begin; i < end; ++i)
                bits |= std::uint64_t{static_cast<float>(rows[row * width + i]) > mean[i]} << (i - begin);
            codes[row * words + word] = bits;
        }
    }
}

std::vector<std::int64_t> nearest_codes(const Codes& codes, std::span<const bool> allowed, const std::uint64_t* query,
                                        std::size_t most) {
    std::vector<std::uint16_t> away(codes.document.size());
#ifdef MNEMOLOG_X86
    static const bool has_popcnt = __builtin_cpu_supports("popcnt");
    (has_popcnt ? measure_popcnt : measure_portable)(codes, allowed, query, away.data());
#else
    measure_portable(codes, allowed, query, away.data());
#endif
    // distances are small whole numbers, so counting them finds the cut without sorting
    std::vector<std::size_t> at_distance(64 * codes.per_row + 1);
    for (const std::uint16_t bits : away)
        if (bits != kExcluded) ++at_distance[bits];
    std::size_t cut = 0, nearer = 0;
    while (cut + 1 < at_distance.size() && nearer + at_distance[cut] < most) nearer += at_distance[cut++];
    std::size_t ties = most - std::min(most, nearer);
    std::vector<std::int64_t> nearest;
    nearest.reserve(std::min(most, away.size()));
    for (std::size_t row = 0; row < away.size(); ++row) {
        if (away[row] > cut || (away[row] == cut && ties == 0)) continue;
        if (away[row] == cut) --ties;
        nearest.push_back(static_cast<std::int64_t>(row));
    }
    return nearest;
}

}  // namespace mnemolog
