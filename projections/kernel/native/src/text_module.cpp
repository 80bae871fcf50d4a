// What Python calls of the readers of texts. Texts are checked here: behind it every one is ASCII. The interpreter's lock
// is held, as texts are short; it keeps two threads from using one reader at once. A text that only the reference can
// read gives None.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "text.h"

namespace nb = nanobind;
using namespace mnemolog;

namespace {

using Words = std::vector<std::string>;

// The characters of a string, which has to stay alive; signs are replaced. False for a text with other characters.
class Characters {
public:
    explicit Characters(const nb::str& text, char apostrophe = kSign) : is_ascii_(PyUnicode_IS_ASCII(text.ptr())) {
        const auto size = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr()));
        if (is_ascii_) {
            view_ = {static_cast<const char*>(PyUnicode_DATA(text.ptr())), size};
            return;
        }
        const int kind = PyUnicode_KIND(text.ptr());
        const void* data = PyUnicode_DATA(text.ptr());
        replaced_.resize(size);
        std::uint32_t before = 0;
        for (std::size_t place = 0; place < size; ++place) {
            const std::uint32_t code = PyUnicode_READ(kind, data, static_cast<Py_ssize_t>(place));
            const bool goes_on = (code == 0xfe0f || code == 0x200d) && is_sign(before);  // of an emoji
            if (code >= 128 && !is_sign(code) && !goes_on) {
                is_readable_ = false;
                return;
            }
            before = goes_on ? before : code;
            replaced_[place] = code < 128 ? static_cast<char>(code) : code == 0x2019 ? apostrophe : kSign;
        }
        view_ = replaced_;
    }
    explicit operator bool() const { return is_readable_; }
    std::string_view operator*() const { return view_; }
    // Whether a part of the text is also one of the original.
    bool has(std::string_view part) const { return is_ascii_ || part.find(kSign) == part.npos; }

private:
    bool is_ascii_, is_readable_ = true;
    std::string replaced_;
    std::string_view view_;
};

nb::object to_python(std::string_view text) {
    PyObject* made = PyUnicode_New(static_cast<Py_ssize_t>(text.size()), 127);
    if (!made) nb::raise_python_error();
    std::copy(text.begin(), text.end(), static_cast<char*>(PyUnicode_DATA(made)));
    return nb::steal(made);
}

nb::object part_of(const nb::str& text, Py_ssize_t start, Py_ssize_t end) {
    PyObject* made = PyUnicode_Substring(text.ptr(), start, end);
    if (!made) nb::raise_python_error();
    return nb::steal(made);
}

template <typename Items, typename Convert>
nb::object to_list(const Items& items, Convert convert) {
    nb::object made = nb::steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
    if (!made.is_valid()) nb::raise_python_error();
    for (std::size_t place = 0; place < items.size(); ++place)
        PyList_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(place), convert(items[place]).release().ptr());
    return made;
}
nb::object to_list(const Strings& items) {
    return to_list(items, [](std::string_view item) { return to_python(item); });
}

// The first distinct words of a text, without the names of tools and unsaid ones.
class Found {
public:
    Found(const Names& names, std::size_t at_most, nb::handle unsaid)
        : names_(names), at_most_(at_most), unsaid_(unsaid), has_unsaid_(PySet_Size(unsaid.ptr()) != 0) {
        if (PyErr_Occurred()) nb::raise_python_error();
    }
    // Returns whether more is wanted. `word` is `text`, or that with its signs.
    bool add(std::string_view text, const nb::object& word) {
        const auto is_word = [&](const nb::object& known) { return PyUnicode_Compare(known.ptr(), word.ptr()) == 0; };
        if (words_.size() < at_most_ && !is_unsaid(text, word) && std::none_of(words_.begin(), words_.end(), is_word))
            words_.push_back(word);
        return words_.size() < at_most_;
    }
    nb::object words() const { return nb::tuple(to_list(words_, [](nb::object word) { return word; })); }

private:
    bool is_unsaid(std::string_view text, const nb::object& word) const {
        if (names_.is_tool(text)) return true;
        const int is_unsaid = has_unsaid_ ? PySet_Contains(unsaid_.ptr(), nb::object(word.attr("lower")()).ptr()) : 0;
        if (is_unsaid < 0) nb::raise_python_error();
        return is_unsaid;
    }

    const Names& names_;
    std::size_t at_most_;
    nb::handle unsaid_;
    bool has_unsaid_;
    std::vector<nb::object> words_;
};

// A part of the text with signs is of the original only by its place: for a path or a concept with one, there is None.
nb::object read_names(const Names& names, nb::str text, nb::handle unsaid, std::size_t paths, std::size_t concepts,
                      std::size_t facts) {
    const Characters read(text);
    if (!read) return nb::none();
    const auto found_by = [&](void (Names::*find)(std::string_view, const Names::Take&) const, std::size_t at_most) {
        Found found(names, at_most, unsaid);
        bool are_original = true;
        (names.*find)(*read, [&](std::string_view word) {
            are_original = are_original && read.has(word);
            return are_original && found.add(word, to_python(word));
        });
        return are_original ? found.words() : nb::none();
    };
    Found stated(names, facts, unsaid);
    names.facts(*read, [&](std::string_view sentence) {
        const auto start = sentence.data() - (*read).data();
        return stated.add(sentence, part_of(text, start, start + static_cast<Py_ssize_t>(sentence.size())));
    });
    return nb::make_tuple(found_by(&Names::paths, paths), found_by(&Names::concepts, concepts), stated.words(),
                          names.is_weighty(*read));
}

nb::object index_terms(IndexTerms& index, const nb::str& text, bool with_stop_words) {
    const Characters characters(text, '\'');
    if (!characters) return nb::none();
    index.read(*characters);
    std::string said(index.terms().joined());
    if (with_stop_words && index.leading_stop_words().size())
        said.append(said.empty() ? "" : " ").append(index.leading_stop_words().joined());
    return nb::make_tuple(to_python(said), to_list(index.traits()), to_list(index.times()));
}

// Reads JSON in a text of any characters, which may be cut, or no JSON at all.
class Json {
public:
    explicit Json(const nb::str& text)
        : text_(text), size_(PyUnicode_GET_LENGTH(text.ptr())), kind_(PyUnicode_KIND(text.ptr())),
          data_(PyUnicode_DATA(text.ptr())) {}

    // Where the object or list ends that begins at a place; the names of its fields; its strings with the names of
    // their fields, as they are written; and, without a field, the words beside strings.
    nb::tuple container(Py_ssize_t place) {
        std::string open;
        Py_UCS4 last = 0;
        nb::list names, values;
        nb::object field = nb::str("");
        while (place < size_) {
            const Py_UCS4 sign = at(place);
            if (sign == '"') {
                const nb::object string = read_string(place);
                Py_ssize_t behind = place;
                while (behind < size_ && Py_UNICODE_ISSPACE(at(behind))) ++behind;
                const bool has_colon = behind < size_ && at(behind) == ':';
                // without a colon: the text was cut after a name, or in it
                const bool is_name = has_colon || (!open.empty() && open.back() == '{' && (last == '{' || last == ','));
                if (is_name) names.append(field = string);
                if (!is_name) values.append(nb::make_tuple(field, string));
                last = is_name ? ':' : sign;
                place = has_colon ? behind + 1 : place;
            } else if (!is_syntax(sign)) {
                last = read_beside(place, values, last);
            } else {
                last = sign;
                ++place;
                if (sign == '{' || sign == '[') {
                    open.push_back(static_cast<char>(sign));
                } else {
                    if (!open.empty()) open.pop_back();
                    if (open.empty()) break;
                }
            }
        }
        return nb::make_tuple(place, names, values);
    }

private:
    Py_UCS4 at(Py_ssize_t place) const { return PyUnicode_READ(kind_, data_, place); }
    static bool is_syntax(Py_UCS4 sign) {
        return sign == '"' || sign == '{' || sign == '}' || sign == '[' || sign == ']';
    }
    bool is_word_at(Py_ssize_t place) const { return Py_UNICODE_ISALNUM(at(place)) || at(place) == '_'; }

    // The inside of the string whose quotation mark is at the place, which becomes the one behind it.
    nb::object read_string(Py_ssize_t& place) const {
        const Py_ssize_t start = ++place;
        while (place < size_ && at(place) != '"') place += at(place) == '\\' ? 2 : 1;
        const Py_ssize_t end = place > size_ ? size_ - 1 : place;  // a backslash at the end of the text is no character
        place = std::min(place + 1, size_);
        return part_of(text_, start, end);
    }

    // Adds the words up to the next sign of JSON's syntax. Returns the last character that is no white space.
    Py_UCS4 read_beside(Py_ssize_t& place, nb::list& values, Py_UCS4 last) const {
        while (place < size_ && !is_syntax(at(place))) {
            const Py_ssize_t start = place++;
            if (!Py_UNICODE_ISSPACE(at(start))) last = at(start);
            if (!is_word_at(start) || Py_UNICODE_ISDECIMAL(at(start))) continue;
            while (place < size_ && is_word_at(place)) last = at(place++);
            if (place - start > 1) values.append(nb::make_tuple(nb::none(), part_of(text_, start, place)));
        }
        return last;
    }

    const nb::str& text_;
    Py_ssize_t size_;
    int kind_;
    const void* data_;
};

// The strings in a JSON object, in order, up to so many characters altogether.
nb::list texts_in(nb::dict value, Py_ssize_t left) {
    nb::list texts;
    std::vector<nb::object> pending = {std::move(value)};
    while (!pending.empty() && left > 0) {
        const nb::object node = std::move(pending.back());
        pending.pop_back();
        const std::size_t before = pending.size();
        if (nb::isinstance<nb::str>(node)) {
            const nb::object text = part_of(nb::borrow<nb::str>(node), 0, left);
            left -= PyUnicode_GET_LENGTH(text.ptr());
            texts.append(text);
        } else if (nb::isinstance<nb::dict>(node)) {
            for (const auto& [_, item] : nb::borrow<nb::dict>(node)) pending.push_back(nb::borrow(item));
        } else if (nb::isinstance<nb::list>(node) || nb::isinstance<nb::tuple>(node)) {
            for (const nb::handle item : node) pending.push_back(nb::borrow(item));
        }
        std::reverse(pending.begin() + static_cast<std::ptrdiff_t>(before), pending.end());
    }
    return texts;
}

void bind_names(nb::module_& m) {
    nb::class_<Names>(m, "Names", "What texts name; None for a text that is not read.")
        .def(
            "__init__",
            [](Names* made, const Words& stop_words, const Words& states, const Words& weighty, const Words& tools,
               const Words& extensions, const Words& dot_files, const Words& signatures) {
                new (made) Names({stop_words, states, weighty, tools,
                                  extensions, dot_files, signatures});
            },
            nb::arg("stop_words"), nb::arg("states"), nb::arg("weighty"), nb::arg("tools"), nb::arg("extensions"),
            nb::arg("dot_files"), nb::arg("signatures"))
        .def("read", &read_names, nb::arg("text"), nb::arg("unsaid"), nb::arg("paths"), nb::arg("concepts"),
             nb::arg("facts"),
             nb::sig("def read(self, text: str, unsaid: collections.abc.Set[str], paths: int, concepts: int, facts: int) -> "
                     "tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...], bool] | None"),
             "The first paths, concepts and facts, each distinct, no name of a tool and not unsaid in small letters, and whether the text "
             "decides, fixes or demands something.");
    nb::class_<Payloads>(m, "Payloads", "What payloads have that says nothing.")
        .def(nb::init<Words>(), nb::arg("beginnings"))
        .def(
            "may_embed",
            [](const Payloads& payloads, nb::str text) {
                const Characters read(text);
                return !read || payloads.may_embed(*read);
            },
            "Whether there may be a data URL, base64 or a frame in a text.")
        .def(
            "is_plain",
            [](const Payloads& payloads, nb::str text) {
                const Characters read(text);
                return read && payloads.is_plain(*read);
            },
            "Whether a text is sure to have none of these, and no JSON or marker.");
    m.def("texts_in", &texts_in, nb::sig("def texts_in(value: dict[str, object], at_most: int) -> list[str]"),
          "The strings in a JSON object, in order, up to so many characters altogether.");
    m.def(
        "json_container", [](nb::str text, Py_ssize_t start) { return Json(text).container(start); },
        nb::sig("def json_container(text: str, start: int) -> tuple[int, list[str], list[tuple[str | None, str]]]"),
        "Where the object or list ends that begins at `start`; the names of its fields; its strings with the names of "
        "their fields, both as written, and without a field the words beside strings.");
}

}  // namespace

void bind_texts(nb::module_& m) {
    nb::class_<Terms>(m, "Terms", "Index terms of texts; None for a text that is not read.")
        .def(
            "__init__",
            [](Terms* made, const Words& stop_words, const Words& operators) {
                new (made) Terms(stop_words, operators);
            },
            nb::arg("stop_words"), nb::arg("operators"))
        .def(
            "of",
            [](Terms& terms, nb::str text) -> nb::object {
                const Characters read(text, '\'');
                return read ? to_list(terms.of(*read)) : nb::none();
            },
            nb::sig("def of(self, text: str) -> list[str] | None"), "The index terms of a text, in reading order.");
    nb::class_<IndexTerms>(m, "IndexTerms", "What an index knows of texts; None for a text that is not read.")
        .def(
            "__init__",
            [](IndexTerms* made, Terms& terms, const Words& stop_words, const Words& time_stems, const Words& numbers,
               const Words& selves, const Words& anchors, const Words& hints, const Words& traits) {
                new (made) IndexTerms(terms, {stop_words, time_stems, numbers, selves,
                                              anchors, hints, traits});
            },
            nb::keep_alive<1, 2>(), nb::arg("terms"), nb::arg("stop_words"), nb::arg("time_stems"), nb::arg("numbers"),
            nb::arg("selves"), nb::arg("anchors"), nb::arg("hints"), nb::arg("traits"))
        .def("read", &index_terms,
             nb::sig("def read(self, text: str, with_stop_words: bool) -> tuple[str, list[str], list[str]] | None"),
             "The terms, with the stop words of the beginning or not; the traits; the words around what may name a "
             "time.");
    bind_names(m);
    m.def(
        "stretch",
        [](nb::str text, const Words& query_terms, std::size_t limit) -> nb::object {
            const Characters read(text);
            if (!read) return nb::none();
            const Span part = stretch(*read, query_terms, limit);
            return nb::make_tuple(part.start, part.end);
        },
        nb::sig("def stretch(text: str, query_terms: Sequence[str], limit: int) -> tuple[int, int] | None"),
        "Where the part of a longer text begins and ends, of at most `limit` characters, where most of a query's terms "
        "are said; None for a text that is not read.");
}
