/* Reads a web server's access log and says what is in it.
 *
 * The payload is the log itself, in the common or the combined log format, as `payload_file` hands it over. It may
 * instead be a JSON object, {"log": "…", "pace_ms": 20}: then the handler waits that long after each chunk of lines, so
 * that it can be watched at work, and stopped or killed in the middle of it.
 */
#include <stdio.h>
#include <string.h>

#include "summary.h"

/* How many lines are read between two looks at the signal. */
#define CHUNK 200

/* The next line that is not blank. */
static bool next_line(lh_slice *rest, lh_slice *text) {
    while (rest->len) {
        const char *end = memchr(rest->data, '\n', rest->len);
        size_t len = end ? (size_t)(end - rest->data) : rest->len;
        *text = (lh_slice){rest->data, len};
        size_t used = end ? len + 1 : len;
        *rest = (lh_slice){rest->data + used, rest->len - used};
        if (!line_is_blank(*text))
            return true;
    }
    return false;
}

/* False when the payload is neither an access log nor a request. `log` points into the payload or into `text`. */
static bool read_payload(lh_slice payload, lh_slice *log, lh_buf *text, uint64_t *pace) {
    lh_slice name, value, trimmed = payload;
    size_t at = 0;
    bool has_log = false;
    int64_t ms;
    while (trimmed.len && strchr(" \t\r\n", *trimmed.data) && *trimmed.data)
        trimmed = (lh_slice){trimmed.data + 1, trimmed.len - 1};
    /* No line of an access log begins with a brace: its first field is a host name or an address. */
    *log = payload;
    if (trimmed.len == 0 || *trimmed.data != '{')
        return true;
    if (!lh_json_valid(payload))
        return false;
    while (lh_json_next(payload, &at, &name, &value)) {
        if (lh_equal(name, "\"log\"") && !has_log && lh_json_text(value, text))
            has_log = true;
        else if (lh_equal(name, "\"pace_ms\"") && lh_json_int(value, &ms) && ms >= 0)
            *pace = (uint64_t)ms;
        else
            return false;
    }
    *log = lh_slice_of(text);
    return has_log;
}

static lh_outcome report(lh_run *run, lh_slice log, uint64_t pace, counts *counted) {
    lh_slice text, rest = log;
    uint64_t lines = 0;
    while (next_line(&rest, &text))
        lines++;
    char number[24], attempt[16];
    snprintf(number, sizeof number, "%llu", (unsigned long long)lines);
    snprintf(attempt, sizeof attempt, "%u", (unsigned)run->attempt);
    lh_log_fields(LH_INFO, (lh_field[]){{"lines", number}, {"attempt", attempt}}, 2, "reading an access log");

    for (rest = log; next_line(&rest, &text);) {
        if (counted->lines % CHUNK == 0 && !lh_should_continue())
            return lh_cancelled(run);
        counts_add(counted, text);
        if (counted->lines % CHUNK != 0 && counted->lines != lines)
            continue;
        lh_progress(counted->lines, lines, "lines read");
        if (pace && !lh_sleep(pace))
            return lh_cancelled(run);
    }
    if (counted->malformed) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)counted->malformed);
        lh_log_fields(LH_WARN, (lh_field[]){{"malformed", number}}, 1,
                      "some lines are not in the common or combined log format");
    }
    return LH_SUCCESS;
}

lh_outcome lh_handle(lh_run *run, lh_slice input, lh_buf *output) {
    lh_slice log;
    lh_buf text = {0};
    uint64_t pace = 0;
    counts counted = {0};
    lh_outcome outcome;
    if (read_payload(input, &log, &text, &pace))
        outcome = report(run, log, pace, &counted);
    else
        outcome = lh_permanent(run, "bad-input", "the payload is neither an access log nor a request");
    if (outcome == LH_SUCCESS)
        counts_put(&counted, output);
    counts_free(&counted);
    lh_free(&text);
    return outcome;
}
