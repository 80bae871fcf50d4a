#include "vectors.h"

#include <algorithm>
#include <bit>

#if defined(__x86_64__) && defined(__GNUC__)
#define MNEMOLOG_AVX2 1
#include <immintrin.h>
#endif

namespace mnemolog {
namespace {

std::int64_t product(const std::int8_t* row, const std::int16_t* query, std::size_t width) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::int32_t{row[i]} * query[i];
    return sum;
}

std::uint32_t distance(const std::uint64_t* code, const std::uint64_t* query, std::size_t words) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < words; ++i) bits += static_cast<std::uint32_t>(std::popcount(code[i] ^ query[i]));
    return bits;
}

void distances_portable(const std::uint64_t* codes, std::size_t words, std::span<const std::int64_t> rows,
                        const std::uint64_t* query, std::uint16_t* out) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        out[i] = static_cast<std::uint16_t>(distance(codes + static_cast<std::size_t>(rows[i]) * words, query, words));
}

#ifdef MNEMOLOG_AVX2
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
    return sum + product(row + i, query + i, width - i);
}

// The same loop, with the processor's own instruction for counting bits.
__attribute__((target("popcnt"))) void distances_popcnt(const std::uint64_t* codes, std::size_t words,
                                                        std::span<const std::int64_t> rows,
                                                        const std::uint64_t* query, std::uint16_t* out) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint64_t* code = codes + static_cast<std::size_t>(rows[i]) * words;
        std::uint32_t bits = 0;
        for (std::size_t word = 0; word < words; ++word)
            bits += static_cast<std::uint32_t>(__builtin_popcountll(code[word] ^ query[word]));
        out[i] = static_cast<std::uint16_t>(bits);
    }
}
#endif

}  // namespace

void products(const Rows& matrix, std::span<const std::int64_t> rows, const std::int16_t* query, std::int64_t* out) {
    auto multiply = product;
#ifdef MNEMOLOG_AVX2
    static const bool has_avx2 = __builtin_cpu_supports("avx2");
    if (has_avx2) multiply = product_avx2;
#endif
    for (std::size_t i = 0; i < rows.size(); ++i)
        out[i] = multiply(matrix.data + static_cast<std::size_t>(rows[i]) * matrix.width, query, matrix.width);
}

std::vector<std::int64_t> nearest_codes(const std::uint64_t* codes, std::size_t words,
                                        std::span<const std::int64_t> rows, const std::uint64_t* query,
                                        std::size_t count) {
    if (count >= rows.size()) return {rows.begin(), rows.end()};
    auto measure = distances_portable;
#ifdef MNEMOLOG_AVX2
    static const bool has_popcnt = __builtin_cpu_supports("popcnt");
    if (has_popcnt) measure = distances_popcnt;
#endif
    std::vector<std::uint16_t> away(rows.size());
    measure(codes, words, rows, query, away.data());
    // distances are small whole numbers, so counting them finds the cut without sorting
    std::vector<std::size_t> at_distance(64 * words + 1);
    for (const std::uint16_t bits : away) ++at_distance[bits];
    std::size_t cut = 0, before = 0;
    while (before + at_distance[cut] < count) before += at_distance[cut++];
    std::size_t ties = count - before;
    std::vector<std::int64_t> nearest;
    nearest.reserve(count);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (away[i] > cut || (away[i] == cut && ties == 0)) continue;
        if (away[i] == cut) --ties;
        nearest.push_back(rows[i]);
    }
    return nearest;
}

}  // namespace mnemolog
