#include "runtime/tools/npy.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/base/checked_math.h"
#include "runtime/base/file.h"
#include "runtime/base/stored_type.h"
#include "runtime/base/text.h"
#include "runtime/tools/npy_strings.h"

namespace aipu::tools {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 1 << 20;
constexpr size_t kMaxRank = 64;

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Status parse(std::string* descr, bool* fortran_order, std::vector<int64_t>* shape) {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!eat('{')) return malformed("no '{'");
    while (!eat('}')) {
      std::string key;
      if (!string(&key) || !eat(':')) return malformed("no key");
      if (key == "descr") {
        has_descr = string(descr);
        if (!has_descr) return unsupported("a .npy file with structured elements");
      } else if (key == "fortran_order") {
        has_order = boolean(fortran_order);
        if (!has_order) return malformed("fortran_order is neither True nor False");
      } else if (key == "shape") {
        has_shape = tuple(shape);
        if (!has_shape) return malformed("the shape is not a tuple of sizes");
      } else {
        return malformed("unknown key");
      }
      if (!eat(',')) {
        if (!eat('}')) return malformed("no ','");
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) return malformed("a key is missing");
    return {};
  }

 private:
  static Status malformed(std::string_view why) {
    return invalid_argument(str_cat("not a valid .npy file: its header is malformed (", why, ")"));
  }
  void skip_space() {
    while (position_ < text_.size() &&
           (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t'))
      ++position_;
  }
  bool eat(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  bool string(std::string* value) {
    skip_space();
    if (position_ >= text_.size() || (text_[position_] != '\'' && text_[position_] != '"')) return false;
    const char quote = text_[position_++];
    const size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) return false;
    *value = text_.substr(position_, end - position_);
    position_ = end + 1;
    return true;
  }
  bool boolean(bool* value) {
    skip_space();
    for (const bool candidate : {true, false}) {
      const std::string_view word = candidate ? "True" : "False";
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        *value = candidate;
        return true;
      }
    }
    return false;
  }
  bool tuple(std::vector<int64_t>* values) {
    if (!eat('(')) return false;
    while (!eat(')')) {
      skip_space();
      int64_t value = 0;
      const size_t first = position_;
      while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
        const auto scaled = checked_mul(value, 10);
        const auto next = scaled ? checked_add(*scaled, text_[position_] - '0') : std::nullopt;
        if (!next) return false;
        value = *next;
        ++position_;
      }
      if (position_ == first || values->size() >= kMaxRank) return false;
      values->push_back(value);
      if (!eat(',')) return eat(')');
    }
    return true;
  }

  std::string_view text_;
  size_t position_ = 0;
};

struct DescrRow {
  DType dtype;
  std::string_view descr;
};
constexpr DescrRow kDescrs[] = {{DType::kBool, "|b1"}, {DType::kI8, "|i1"},  {DType::kU8, "|u1"},  {DType::kI16, "<i2"},
                                {DType::kU16, "<u2"},  {DType::kI32, "<i4"}, {DType::kU32, "<u4"}, {DType::kI64, "<i8"},
                                {DType::kU64, "<u8"},  {DType::kF16, "<f2"}, {DType::kF32, "<f4"}, {DType::kF64, "<f8"},
                                {DType::kBF16, "|V2"}, {DType::kC64, "<c8"}};

Result<DType> dtype_of(std::string_view descr) {
  if (descr.size() >= 2) {
    const bool is_one_byte =
        descr.substr(1) == "b1" || descr.substr(1) == "i1" || descr.substr(1) == "u1" || descr.substr(1) == "V2";
    if (descr[0] == '>' && !is_one_byte)
      return unsupported(
          str_cat("a .npy file with big-endian elements ('", printable(descr), "'); save it little-endian"));
    for (const DescrRow& row : kDescrs) {
      if (row.descr.substr(1) == descr.substr(1) && std::string_view("<>|=").find(descr[0]) != std::string_view::npos)
        return row.dtype;
    }
  }
  return unsupported(str_cat("a .npy file with elements of type '", printable(descr), "'"));
}

// Fortran order to C order.
std::vector<std::byte> transposed(std::span<const std::byte> data, std::span<const int64_t> shape, size_t element) {
  std::vector<std::byte> result(data.size());
  std::vector<int64_t> index(shape.size(), 0);
  std::vector<size_t> stride(shape.size());
  size_t step = element;
  for (size_t k = 0; k < shape.size(); ++k) {
    stride[k] = step;
    step *= static_cast<size_t>(shape[k]);
  }
  size_t from = 0;
  for (size_t to = 0; to < result.size(); to += element) {
    std::memcpy(result.data() + to, data.data() + from, element);
    for (size_t k = shape.size(); k-- > 0;) {
      from += stride[k];
      if (++index[k] < shape[k]) break;
      from -= stride[k] * static_cast<size_t>(shape[k]);
      index[k] = 0;
    }
  }
  return result;
}

}  // namespace

Result<int64_t> element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflows = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return invalid_argument(str_cat("the shape ", shape_text(shape), " has a negative extent"));
    if (extent == 0) return int64_t{0};
    const auto product = checked_mul(count, extent);
    overflows |= !product;
    count = product.value_or(count);
  }
  if (overflows)
    return out_of_range(str_cat("the shape ", shape_text(shape), " has more elements than 64 bits can count"));
  return count;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) result += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return result + "]";
}

Result<Array> parse_npy(std::span<const std::byte> file) {
  const auto byte_at = [&](size_t i) { return static_cast<size_t>(std::to_integer<uint8_t>(file[i])); };
  if (file.size() < 10 || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    return invalid_argument("not a .npy file");
  const size_t version = byte_at(6);
  if (version < 1 || version > 3) return unsupported(str_cat("a .npy file of version ", version));
  size_t header_begin = 10;
  size_t header_size = byte_at(8) | byte_at(9) << 8;
  if (version > 1) {
    if (file.size() < 12) return invalid_argument("not a valid .npy file: it ends within its header");
    header_begin = 12;
    header_size |= byte_at(10) << 16 | byte_at(11) << 24;
  }
  if (header_size > kMaxHeaderBytes || header_size > file.size() - header_begin)
    return invalid_argument("not a valid .npy file: it ends within its header");
  std::string descr;
  bool fortran_order = false;
  Array array;
  HeaderParser parser({reinterpret_cast<const char*>(file.data()) + header_begin, header_size});
  AIPU_RETURN_IF_ERROR(parser.parse(&descr, &fortran_order, &array.shape));
  const auto strings = string_descr(descr);
  if (strings) {
    array.dtype = DType::kString;
  } else {
    AIPU_ASSIGN_OR_RETURN(array.dtype, dtype_of(descr));
  }
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(array.shape));
  const size_t element = strings ? strings->element_bytes() : dtype_bytes(array.dtype);
  if (element == 0) return unsupported("a .npy file with strings of no length");
  const auto data = file.subspan(header_begin + header_size);
  if (static_cast<uint64_t>(count) > data.size() / element || static_cast<size_t>(count) * element != data.size()) {
    return invalid_argument(str_cat("not a valid .npy file: the shape ", shape_text(array.shape), " of ",
                                    dtype_name(array.dtype), " does not fit its ", data.size(), " bytes of data"));
  }
  array.data =
      fortran_order ? transposed(data, array.shape, element) : std::vector<std::byte>(data.begin(), data.end());
  if (strings) return strings_of(*strings, array.shape, array.data);
  return array;
}

Array with_type(Array array, DType dtype) {
  if (stored_type(dtype) == nullptr || array.dtype != held_as(dtype) || dtype == DType::kString) return array;
  array.dtype = dtype;
  if (is_packed(dtype)) array.data = pack(dtype, array.data);
  return array;
}

Result<Array> read_npy(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::read(path));
  auto array = parse_npy(file.bytes());
  if (!array.ok()) return std::move(array).status().context(path);
  return array;
}

namespace {

std::vector<std::byte> header_of(std::string_view descr, std::span<const int64_t> shape) {
  std::string text = str_cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t extent : shape) text += std::to_string(extent) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  if (shape.size() == 1) text.resize(text.size() - 1);
  text += "), }";
  const size_t total = (10 + text.size() + 1 + 63) / 64 * 64;
  text.resize(total - 11, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\1';
  header += '\0';
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  header += text;
  const auto bytes = std::as_bytes(std::span(header));
  return {bytes.begin(), bytes.end()};
}

Status write_strings(AtomicFile file, std::span<const int64_t> shape, std::span<const runtime::StringView> texts) {
  AIPU_ASSIGN_OR_RETURN(const size_t length, longest(texts));
  AIPU_RETURN_IF_ERROR(file.write(header_of(str_cat("<U", length), shape)));
  AIPU_RETURN_IF_ERROR(file.write(wide_elements(texts, length)));
  return file.commit();
}

}  // namespace

std::vector<std::byte> npy_header(DType dtype, std::span<const int64_t> shape) {
  std::string_view descr = "|V1";
  for (const DescrRow& row : kDescrs) {
    if (row.dtype == dtype) descr = row.descr;
  }
  return header_of(descr, shape);
}

Status write_npy(const std::string& path, DType dtype, std::span<const int64_t> shape, const void* data) {
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(shape));
  AIPU_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  if (dtype == DType::kString)
    return write_strings(std::move(file), shape,
                         {static_cast<const runtime::StringView*>(data), static_cast<size_t>(count)});
  const bool is_known = stored_type(dtype) == nullptr || dtype == DType::kC64;
  AIPU_RETURN_IF_ERROR(file.write(npy_header(is_known ? dtype : held_as(dtype), shape)));
  std::span<const std::byte> bytes(static_cast<const std::byte*>(data),
                                   static_cast<size_t>(packed_bytes(dtype, count).value_or(0)));
  std::vector<std::byte> codes;
  if (is_packed(dtype)) bytes = codes = unpack(dtype, bytes, count);
  AIPU_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

}  // namespace aipu::tools
