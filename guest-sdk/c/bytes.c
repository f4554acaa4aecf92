/* Bytes and JSON of leasehold.h: buffers that grow, values read where they stand, strings written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leasehold.h"

/* ---- Bytes ---- */

static void *grown(void *memory, size_t size) {
    void *larger = realloc(memory, size);
    if (!larger)
        abort();
    return larger;
}

static void reserve(lh_buf *buf, size_t more) {
    size_t need;
    if (__builtin_add_overflow(buf->len, more, &need) || __builtin_add_overflow(need, 1, &need))
        abort();
    if (need <= buf->capacity)
        return;
    size_t twice = buf->capacity > SIZE_MAX / 2 ? need : buf->capacity * 2;
    buf->capacity = need > twice ? need : twice;
    buf->data = grown(buf->data, buf->capacity);
}

lh_slice lh_str(const char *text) { return (lh_slice){text, strlen(text)}; }

lh_slice lh_slice_of(const lh_buf *buf) { return (lh_slice){buf->data, buf->len}; }

bool lh_equal(lh_slice a, const char *text) {
    size_t len = strlen(text);
    return a.len == len && (len == 0 || memcmp(a.data, text, len) == 0);
}

void lh_put(lh_buf *buf, lh_slice bytes) {
    reserve(buf, bytes.len);
    if (bytes.len)
        memcpy(buf->data + buf->len, bytes.data, bytes.len);
    buf->len += bytes.len;
    buf->data[buf->len] = 0;
}

void lh_puts(lh_buf *buf, const char *text) { lh_put(buf, lh_str(text)); }

void lh_vprintf(lh_buf *buf, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    if (len < 0)
        abort();
    reserve(buf, (size_t)len);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
    buf->len += (size_t)len;
    va_end(again);
}

void lh_printf(lh_buf *buf, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lh_vprintf(buf, format, arguments);
    va_end(arguments);
}

void lh_clear(lh_buf *buf) {
    buf->len = 0;
    if (buf->data)
        buf->data[0] = 0;
}

void lh_free(lh_buf *buf) {
    free(buf->data);
    *buf = (lh_buf){0};
}

/* ---- JSON ---- */

/* How deep arrays and objects may nest, so that no payload overflows the stack. */
#define DEPTH 128

typedef struct {
    const char *at;
    const char *end;
} cursor;

static bool skip_value(cursor *c, int depth);

static void skip_space(cursor *c) {
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at)
        c->at++;
}

static bool skip_char(cursor *c, char expected) {
    skip_space(c);
    if (c->at == c->end || *c->at != expected)
        return false;
    c->at++;
    return true;
}

static bool skip_word(cursor *c, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

static bool skip_string(cursor *c) {
    if (!skip_char(c, '"'))
        return false;
    while (c->at < c->end && *c->at != '"') {
        if ((unsigned char)*c->at < 0x20)
            return false;
        c->at += *c->at == '\\' && c->at + 1 < c->end ? 2 : 1;
    }
    return skip_char(c, '"');
}

static bool skip_digits(cursor *c) {
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > from;
}

static bool skip_number(cursor *c) {
    skip_word(c, "-");
    if (!skip_word(c, "0") && !skip_digits(c))
        return false;
    if (skip_word(c, ".") && !skip_digits(c))
        return false;
    if (skip_word(c, "e") || skip_word(c, "E")) {
        if (!skip_word(c, "+"))
            skip_word(c, "-");
        return skip_digits(c);
    }
    return true;
}

/* Behind the bracket that opens: the next member, if there is one. */
static bool skip_member(cursor *c, bool object, bool first, cursor *name, cursor *value, int depth) {
    if (!first && !skip_char(c, ','))
        return false;
    skip_space(c);
    *name = (cursor){c->at, c->at};
    if (object) {
        if (!skip_string(c))
            return false;
        name->end = c->at;
        if (!skip_char(c, ':'))
            return false;
    }
    skip_space(c);
    value->at = c->at;
    if (!skip_value(c, depth))
        return false;
    value->end = c->at;
    return true;
}

static bool skip_members(cursor *c, bool object, int depth) {
    char close = object ? '}' : ']';
    cursor name, value;
    if (depth == 0)
        return false;
    c->at++;
    for (bool first = true; !skip_char(c, close); first = false)
        if (!skip_member(c, object, first, &name, &value, depth - 1))
            return false;
    return true;
}

static bool skip_value(cursor *c, int depth) {
    skip_space(c);
    if (c->at == c->end)
        return false;
    switch (*c->at) {
    case '{':
        return skip_members(c, true, depth);
    case '[':
        return skip_members(c, false, depth);
    case '"':
        return skip_string(c);
    case 't':
        return skip_word(c, "true");
    case 'f':
        return skip_word(c, "false");
    case 'n':
        return skip_word(c, "null");
    default:
        return skip_number(c);
    }
}

bool lh_json_valid(lh_slice json) {
    cursor c = {json.data, json.data + json.len};
    if (!skip_value(&c, DEPTH))
        return false;
    skip_space(&c);
    return c.at == c.end;
}

bool lh_json_next(lh_slice json, size_t *at, lh_slice *name, lh_slice *value) {
    cursor c = {json.data, json.data + json.len}, key, inner;
    skip_space(&c);
    if (c.at == c.end || (*c.at != '{' && *c.at != '['))
        return false;
    bool object = *c.at == '{', first = *at == 0;
    c.at = first ? c.at + 1 : json.data + *at;
    cursor closing = c;
    if (skip_char(&closing, object ? '}' : ']'))
        return false;
    if (!skip_member(&c, object, first, &key, &inner, DEPTH))
        return false;
    *at = (size_t)(c.at - json.data);
    *name = (lh_slice){key.at, (size_t)(key.end - key.at)};
    *value = (lh_slice){inner.at, (size_t)(inner.end - inner.at)};
    return true;
}

bool lh_json_get(lh_slice json, const char *name, lh_slice *value) {
    lh_slice key, found;
    lh_buf text = {0};
    bool is_it = false;
    for (size_t at = 0; !is_it && lh_json_next(json, &at, &key, &found);) {
        lh_clear(&text);
        is_it = lh_json_text(key, &text) && lh_equal(lh_slice_of(&text), name);
    }
    lh_free(&text);
    if (is_it)
        *value = found;
    return is_it;
}

static bool hex4(const char *at, const char *end, uint32_t *code) {
    if (end - at < 4)
        return false;
    *code = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = at[i] ? strchr(digits, at[i] >= 'A' && at[i] <= 'F' ? at[i] + 32 : at[i]) : NULL;
        if (!digit)
            return false;
        *code = *code * 16 + (uint32_t)(digit - digits);
    }
    return true;
}

static void put_code(lh_buf *buf, uint32_t code) {
    char bytes[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = len; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(lead[len] | code);
    lh_put(buf, (lh_slice){bytes, len});
}

/* Of `\uXXXX`, behind the `u`: one that is half of a pair alone becomes U+FFFD. */
static bool put_unicode(lh_buf *buf, const char **at, const char *end) {
    uint32_t code, low;
    if (!hex4(*at, end, &code))
        return false;
    *at += 4;
    if (code >= 0xD800 && code < 0xDC00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u' &&
        hex4(*at + 2, end, &low) && low >= 0xDC00 && low < 0xE000) {
        *at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    put_code(buf, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    return true;
}

bool lh_json_text(lh_slice value, lh_buf *text) {
    cursor whole = {value.data, value.data + value.len};
    if (!skip_string(&whole) || whole.at != value.data + value.len)
        return false;
    const char *at = value.data + 1, *end = value.data + value.len - 1;
    while (at < end) {
        const char *plain = at;
        while (at < end && *at != '\\')
            at++;
        lh_put(text, (lh_slice){plain, (size_t)(at - plain)});
        if (at == end)
            break;
        char kind = at[1];
        at += 2;
        const char *kinds = "\"\\/bfnrt", *is = "\"\\/\b\f\n\r\t";
        const char *known = kind ? strchr(kinds, kind) : NULL;
        if (known)
            lh_put(text, (lh_slice){is + (known - kinds), 1});
        else if (kind != 'u' || !put_unicode(text, &at, end))
            return false;
    }
    lh_puts(text, "");
    return true;
}

bool lh_json_int(lh_slice value, int64_t *number) {
    size_t i = value.len > 0 && value.data[0] == '-';
    bool negative = i == 1;
    int64_t sum = 0;
    if (value.len == i)
        return false;
    for (; i < value.len; i++) {
        int digit = value.data[i] - '0';
        /* Downwards, as there is one more negative number. */
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(sum, 10, &sum) || __builtin_sub_overflow(sum, digit, &sum))
            return false;
    }
    if (!negative && sum == INT64_MIN)
        return false;
    *number = negative ? sum : -sum;
    return true;
}

bool lh_json_is_null(lh_slice value) { return lh_equal(value, "null"); }

/* The length of the UTF-8 sequence that begins here; 0 when it is none. */
static size_t sequence(const unsigned char *at, size_t left) {
    size_t len = at[0] < 0x80 ? 1 : at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : (at[0] & 0xF0) == 0xE0 ? 3 : 4;
    if (at[0] > 0xF4 || (at[0] >= 0x80 && at[0] < 0xC2) || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    /* Longer than need be, a half of a pair, or behind the last character. */
    bool bad = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] > 0x9F) || (at[0] == 0xF0 && at[1] < 0x90) ||
               (at[0] == 0xF4 && at[1] > 0x8F);
    return bad ? 0 : len;
}

void lh_put_utf8(lh_buf *buf, lh_slice text) {
    size_t from = 0;
    for (size_t i = 0; i < text.len;) {
        size_t len = sequence((const unsigned char *)text.data + i, text.len - i);
        if (len == 0) {
            lh_put(buf, (lh_slice){text.data + from, i - from});
            lh_puts(buf, "\xEF\xBF\xBD");
            from = i + 1;
        }
        i += len ? len : 1;
    }
    lh_put(buf, (lh_slice){text.data + from, text.len - from});
}

void lh_put_json(lh_buf *buf, lh_slice text) {
    lh_buf valid = {0};
    lh_put_utf8(&valid, text);
    lh_puts(buf, "\"");
    size_t from = 0;
    for (size_t i = 0; i < valid.len; i++) {
        unsigned char c = (unsigned char)valid.data[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        lh_put(buf, (lh_slice){valid.data + from, i - from});
        lh_printf(buf, c < 0x20 ? "\\u%04x" : "\\%c", c);
        from = i + 1;
    }
    lh_put(buf, (lh_slice){valid.data + from, valid.len - from});
    lh_puts(buf, "\"");
    lh_free(&valid);
}
