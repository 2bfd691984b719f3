#include "cli/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace vram::cli {
namespace {

const char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the character at the beginning of `text`; 0: none is encoded there.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  // Neither longer than need be, nor half of a surrogate, nor beyond the last character.
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return size;
}

void add_escaped(char c, std::string* out) {
  constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  const std::size_t at = kPlain.find(c);
  if (at != std::string_view::npos) {
    *out += '\\';
    *out += kNames[at];
    return;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  *out += "\\u00";
  *out += kDigits[static_cast<unsigned char>(c) >> 4];
  *out += kDigits[c & 15];
}

void add_text(std::string_view text, std::string* out) {
  *out += '"';
  while (!text.empty()) {
    const std::size_t size = character(text);
    const char c = text.front();
    if (size == 0) {
      *out += kReplacement;
    } else if (size == 1 && (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\')) {
      add_escaped(c, out);
    } else {
      *out += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  *out += '"';
}

template <typename Number>
void add_number(Number number, std::string* out) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  out->append(text, end);
}

// Shows that it is no integer by nature.
void add_fraction(double number, std::string* out) {
  if (!std::isfinite(number)) {
    *out += "null";
    return;
  }
  const std::size_t before = out->size();
  add_number(number, out);
  if (out->find_first_of(".e", before) == std::string::npos) *out += ".0";
}

}  // namespace

class JsonText {
 public:
  explicit JsonText(bool lines) : lines_(lines) {}

  std::string text(const Json& json) {
    std::visit([this](const auto& value) { add(value); }, json.value_);
    return std::move(text_);
  }

 private:
  void add(std::monostate) { text_ += "null"; }
  void add(bool value) { text_ += value ? "true" : "false"; }
  void add(std::uint64_t value) { add_number(value, &text_); }
  void add(std::int64_t value) { add_number(value, &text_); }
  void add(double value) { add_fraction(value, &text_); }
  void add(const std::string& value) { add_text(value, &text_); }
  void add(const Json::Array& items) {
    add_items('[', ']', items, [this](const Json& item) { add_value(item); });
  }
  void add(const Json::Object& fields) {
    add_items('{', '}', fields, [this](const Json::Field& field) {
      add_text(field.first, &text_);
      text_ += lines_ ? ": " : ":";
      add_value(field.second);
    });
  }
  void add_value(const Json& json) {
    std::visit([this](const auto& value) { add(value); }, json.value_);
  }

  template <typename Items, typename AddItem>
  void add_items(char begin, char end, const Items& items, AddItem add_item) {
    text_ += begin;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) text_ += ',';
      first = false;
      new_line();
      add_item(item);
    }
    --depth_;
    if (!first) new_line();
    text_ += end;
  }
  void new_line() {
    if (lines_) text_.append(1, '\n').append(2 * depth_, ' ');
  }

  bool lines_;
  std::size_t depth_ = 0;
  std::string text_;
};

Json::Json(std::initializer_list<Json> items) {
  const auto name_of = [](const Json& item) -> const std::string* {
    const Array* pair = std::get_if<Array>(&item.value_);
    return pair != nullptr && pair->size() == 2 ? std::get_if<std::string>(&pair->front().value_)
                                                : nullptr;
  };
  const bool fields = std::all_of(items.begin(), items.end(),
                                  [&](const Json& item) { return name_of(item) != nullptr; });
  if (!fields) {
    value_ = Array(items);
    return;
  }
  value_ = Object{};
  for (const Json& item : items) (*this)[*name_of(item)] = std::get<Array>(item.value_)[1];
}

Json Json::array() {
  Json json;
  json.value_ = Array{};
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Object{};
  return json;
}

void Json::push_back(Json item) { std::get<Array>(value_).push_back(std::move(item)); }

Json& Json::operator[](std::string_view name) {
  Object& fields = std::get<Object>(value_);
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.first == name; });
  if (found != fields.end()) return found->second;
  return fields.emplace_back(std::string(name), Json()).second;
}

void Json::update(const Json& other) {
  for (const Field& field : std::get<Object>(other.value_)) (*this)[field.first] = field.second;
}

std::string Json::line() const { return JsonText(false).text(*this); }
std::string Json::lines() const { return JsonText(true).text(*this); }

}  // namespace vram::cli
