// What both fuzz targets need: chance, and an end with the input's number when something does not hold.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

class Dice {
public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t number() { return engine_(); }
    std::size_t below(std::size_t limit) { return engine_() % limit; }
    bool rarely() { return below(50) == 0; }
    // Between -1 and 1.
    double fraction() { return static_cast<double>(engine_()) / 9223372036854775808.0 - 1; }

    template <typename List>
    const auto& one_of(const List& list) { return list[below(std::size(list))]; }

private:
    std::mt19937_64 engine_;
};

inline void require(bool holds, const char* what, const char* of = "") {
    if (holds) return;
    std::fprintf(stderr, "%s\n%s\n", what, of);
    std::abort();
}

// `program [inputs] [seed]`: calls `read(dice)` for each input.
template <typename Read>
int run(int count, char** arguments, const char* inputs_are, Read read) {
    const long inputs = count > 1 ? std::atol(arguments[1]) : 1'000'000;
    Dice dice(count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1);
    for (long input = 0; input < inputs; ++input) read(dice);
    std::printf("%ld %s\n", inputs, inputs_are);
    return 0;
}
