#include "line.h"

#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f'; }

static void trim(lh_slice *rest) {
    while (rest->len && is_space(*rest->data))
        *rest = (lh_slice){rest->data + 1, rest->len - 1};
}

bool line_is_blank(lh_slice text) {
    trim(&text);
    return text.len == 0;
}

/* The first `len` bytes, and leaves what follows the next `skip` behind them. */
static lh_slice cut(lh_slice *rest, size_t len, size_t skip) {
    lh_slice first = {rest->data, len};
    *rest = (lh_slice){rest->data + len + skip, rest->len - len - skip};
    return first;
}

static bool word(lh_slice *rest, lh_slice *found) {
    size_t len = 0;
    trim(rest);
    while (len < rest->len && !is_space(rest->data[len]))
        len++;
    *found = cut(rest, len, 0);
    return len > 0;
}

/* What stands between two delimiters, a backslash protecting the next byte. */
static bool delimited(lh_slice *rest, char open, char close, lh_slice *found) {
    trim(rest);
    if (rest->len == 0 || *rest->data != open)
        return false;
    cut(rest, 1, 0);
    for (size_t at = 0; at < rest->len; at++) {
        if (rest->data[at] == '\\') {
            at++;
        } else if (rest->data[at] == close) {
            *found = cut(rest, at, 1);
            return true;
        }
    }
    return false;
}

static bool number(lh_slice digits, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        char digit = digits.data[i];
        if (digit < '0' || digit > '9' || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(digit - '0'), value))
            return false;
    }
    return digits.len > 0;
}

/* The path of `GET /a?b HTTP/1.1`. */
static lh_slice path_of(lh_slice request) {
    const lh_slice none = {"-", 1};
    const char *method_end = memchr(request.data, ' ', request.len);
    if (!method_end)
        return none;
    lh_slice rest = {method_end + 1, request.len - (size_t)(method_end + 1 - request.data)};
    const char *target_end = memchr(rest.data, ' ', rest.len);
    if (!target_end || target_end == rest.data)
        return none;
    lh_slice target = {rest.data, (size_t)(target_end - rest.data)};
    if (memchr(target_end + 1, ' ', rest.len - target.len - 1))
        return none;
    const char *query = memchr(target.data, '?', target.len);
    return query ? (lh_slice){target.data, (size_t)(query - target.data)} : target;
}

bool line_parse(lh_slice text, line *found) {
    lh_slice skipped, request, status, size;
    uint64_t code;
    for (int i = 0; i < 3; i++) /* host, ident, user */
        if (!word(&text, &skipped))
            return false;
    if (!delimited(&text, '[', ']', &skipped) || !delimited(&text, '"', '"', &request) || !word(&text, &status) ||
        !word(&text, &size) || !number(status, &code) || code < 100 || code > 999)
        return false;
    *found = (line){.path = path_of(request), .status = (unsigned)code};
    return lh_equal(size, "-") || number(size, &found->bytes);
}
