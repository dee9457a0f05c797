// printf: text goes to the user through the context. Integers print as their 32-bit pattern, floats with six decimals,
// cut and not rounded.

struct __printed {
  char text[1024];
  ulong size;
};
__inl void __put(__printed& out, char c) {
  if (out.size == sizeof(out.text)) {
    __tec->print(__tec, out.text, out.size);
    out.size = 0;
  }
  out.text[out.size++] = c;
}
static inline void __put_text(__printed& out, const char* text) {
  for (; *text != 0; text++) __put(out, *text);
}
static void __put_number(__printed& out, ulong value, uint base, bool upper) {
  char digits[24];
  int n = 0;
  do {
    const uint digit = (uint)(value % base);
    digits[n++] = (char)(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    value /= base;
  } while (value != 0);
  while (n > 0) __put(out, digits[--n]);
}
static void __put_float(__printed& out, double value) {
  char text[400];
  const int n = __builtin_snprintf(text, sizeof(text), "%.12f", value);
  const bool finite = value - value == 0;
  for (int i = 0; i < n - (finite ? 6 : 0); i++) __put(out, text[i]);
}

struct __print_argument {
  const void* data;  // a string, or the value
  double number;
  uint bits;
  int bytes;
  int element_bytes;
};
template <class T>
__inl __print_argument __printable(const T& value) {
  typedef __e<T> E;
  __print_argument a = {&value, 0, 0, (int)sizeof(T), (int)sizeof(E)};
  if constexpr (__LANES(T) == 1) {
    if constexpr (__is_float<E>::value) {
      a.number = (double)(float)value;
      if constexpr (sizeof(E) == 2)
        a.bits = value.bits;
      else
        a.bits = __bits<uint>((float)value);
    } else {
      a.bits = (uint)value;
    }
  }
  return a;
}
__inl __print_argument __printable(const char* text) { return {text, 0, (uint)(ulong)text, 8, 8}; }
template <class T>
__inl __print_argument __printable(T* pointer) {
  return {pointer, 0, (uint)(ulong)pointer, 8, 8};
}

static void __put_vector(__printed& out, const __print_argument& a, bool as_float, bool upper) {
  for (int i = 0; i < a.bytes; i += a.element_bytes) {
    if (i != 0) __put(out, ',');
    uint bits = 0;
    __builtin_memcpy(&bits, (const char*)a.data + i, (ulong)(a.element_bytes < 4 ? a.element_bytes : 4));
    if (as_float) {
      __put_float(out, a.element_bytes == 2 ? __float_of_half((ushort)bits) : __bits<float>(bits));
    } else {
      __put_text(out, "0x");
      __put_number(out, bits, 16, upper);
    }
  }
}
static void __print_text(const char* format, const __print_argument* arguments, int count) {
  __printed out;
  out.size = 0;
  int next = 0;
  for (const char* c = format; *c != 0; c++) {
    if (*c != '%') {
      __put(out, *c);
      continue;
    }
    c++;
    if (*c == '%') {
      __put(out, '%');
      continue;
    }
    const bool vector = *c == 'v';
    while ((*c >= '0' && *c <= '9') || *c == 'v' || *c == 'h' || *c == 'l') c++;
    if (*c == 0 || next == count) break;
    const __print_argument& a = arguments[next++];
    if (vector) {
      __put_vector(out, a, *c == 'f', *c == 'X');
      continue;
    }
    switch (*c) {
      case 'd':
      case 'i':
        if ((int)a.bits < 0) __put(out, '-');
        __put_number(out, (int)a.bits < 0 ? 0u - a.bits : a.bits, 10, false);
        break;
      case 'u':
        __put_number(out, a.bits, 10, false);
        break;
      case 'o':
        __put(out, '0');
        __put_number(out, a.bits, 8, false);
        break;
      case 'x':
      case 'X':
        __put_text(out, "0x");
        __put_number(out, a.bits, 16, *c == 'X');
        break;
      case 'f':
        __put_float(out, a.number);
        break;
      case 'c':
        __put(out, (char)a.bits);
        break;
      case 's':
        __put_text(out, (const char*)a.data);
        break;
      case 'p':
        __put_text(out, "0x");
        __put_number(out, (ulong)a.data, 16, false);
        break;
      default:
        break;
    }
  }
  if (out.size != 0) __tec->print(__tec, out.text, out.size);
}
template <class... T>
__inl int printf(const char* format, const T&... values) {
  const __print_argument arguments[] = {__printable(values)..., {nullptr, 0, 0, 0, 0}};
  __print_text(format, arguments, (int)sizeof...(values));
  return 0;
}
