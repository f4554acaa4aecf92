/* Does what the tests of all languages ask for: one handler, told by its payload what to show. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leasehold.h"

#define MAX_HEADERS 16

/* A member's text, in memory that lasts as long as the plugin: an attempt. */
static const char *text_of(lh_slice json, const char *name) {
    lh_slice value;
    lh_buf text = {0};
    if (!lh_json_get(json, name, &value) || !lh_json_text(value, &text)) {
        lh_free(&text);
        return NULL;
    }
    return text.data;
}

/* Those of an object whose values are texts; how many. */
static size_t fields_of(lh_slice json, const char *name, lh_field fields[MAX_HEADERS]) {
    lh_slice object, key, value;
    size_t count = 0;
    if (!lh_json_get(json, name, &object))
        return 0;
    for (size_t at = 0; count < MAX_HEADERS && lh_json_next(object, &at, &key, &value);) {
        lh_buf key_text = {0}, value_text = {0};
        if (lh_json_text(key, &key_text) && lh_json_text(value, &value_text))
            fields[count++] = (lh_field){key_text.data, value_text.data};
    }
    return count;
}

static void put_text(lh_buf *output, const char *name, const char *text) {
    lh_printf(output, "\"%s\":", name);
    if (text)
        lh_put_json(output, lh_str(text));
    else
        lh_puts(output, "null");
}

static lh_outcome facts(lh_run *run, lh_buf *output) {
    lh_buf key = {0};
    lh_idempotency_key("charge-42", &key);
    lh_puts(output, "{");
    put_text(output, "tenant", run->tenant);
    lh_puts(output, ",");
    put_text(output, "job", run->job);
    lh_puts(output, ",");
    put_text(output, "reason", run->reason);
    lh_puts(output, ",");
    put_text(output, "run_id", run->id);
    lh_puts(output, ",");
    put_text(output, "key", key.data);
    lh_printf(output, ",\"attempt\":%" PRIu32 ",\"fence\":%" PRIu64 ",\"slot_ms\":%" PRIu64 "}", run->attempt, run->fence,
              run->slot_ms);
    lh_free(&key);
    return LH_SUCCESS;
}

static lh_outcome fail(lh_run *run, lh_slice input) {
    const char *kind = text_of(input, "kind"), *code = text_of(input, "code"), *message = text_of(input, "message");
    lh_outcome outcome;
    if (kind && strcmp(kind, "cancelled") == 0)
        return lh_cancelled(run);
    if (kind && strcmp(kind, "retryable") == 0)
        outcome = lh_retryable(run, code, "%s", message);
    else if (kind && strcmp(kind, "permanent") == 0)
        outcome = lh_permanent(run, code, "%s", message);
    else
        return lh_permanent(run, "bad-input", "no such kind");
    lh_field details[MAX_HEADERS];
    size_t count = fields_of(input, "details", details);
    for (size_t i = 0; i < count; i++)
        lh_detail(run, details[i].key, details[i].value);
    return outcome;
}

static lh_outcome log_lines(lh_buf *output) {
    const char *names[] = {"trace", "debug", "info", "warn", "error"};
    const lh_field fields[] = {{"n", "7"}, {"s", "späß"}};
    for (int level = LH_TRACE; level <= LH_ERROR; level++)
        lh_log_fields((lh_level)level, fields, 2, "line at %s: grüße", names[level]);
    lh_puts(output, "null");
    return LH_SUCCESS;
}

static lh_outcome poll(lh_buf *output) {
    while (lh_should_continue())
        lh_sleep(5);
    lh_puts(output, "{");
    put_text(output, "stopped", lh_stop_reason());
    lh_puts(output, "}");
    return LH_SUCCESS;
}

static lh_outcome wait(lh_run *run, lh_slice input, lh_buf *output) {
    lh_slice value;
    int64_t ms;
    if (!lh_json_get(input, "ms", &value) || !lh_json_int(value, &ms))
        return lh_permanent(run, "bad-input", "no ms");
    lh_printf(output, "{\"slept\":%s,", lh_sleep((uint64_t)ms) ? "true" : "false");
    put_text(output, "reason", lh_stop_reason());
    lh_puts(output, "}");
    return LH_SUCCESS;
}

static lh_outcome state(lh_run *run, lh_buf *output) {
    bool found;
    lh_status status = lh_load_state(output, &found);
    if (status || found)
        return status ? lh_fail(run, status) : LH_SUCCESS;
    lh_buf mine = {0};
    lh_printf(&mine, "{\"from\":%" PRIu32 "}", run->attempt);
    status = lh_save_state(lh_slice_of(&mine));
    lh_free(&mine);
    if (status)
        return lh_fail(run, status);
    lh_info("saved");
    while (lh_sleep(60000))
        ;
    return lh_cancelled(run);
}

static void put_key(lh_slice key, void *output) {
    lh_buf *buf = output;
    if (buf->data[buf->len - 1] != '[')
        lh_puts(buf, ",");
    lh_put_json(buf, key);
}

/* The value of a key as JSON. */
static lh_status put_value(lh_buf *output, const char *key) {
    lh_buf value = {0};
    bool found;
    lh_status status = lh_kv_get(key, &value, &found);
    if (status == LH_OK && found)
        lh_put_json(output, lh_slice_of(&value));
    else if (status == LH_OK)
        lh_puts(output, "null");
    lh_free(&value);
    return status;
}

static lh_outcome key_values(lh_run *run, lh_buf *output) {
    const char *key = "conf/a";
    const lh_slice zero = lh_str("0"), one = lh_str("1");
    bool wrong, right, deleted;
    lh_status status;
    if ((status = lh_kv_set(key, one)))
        return lh_fail(run, status);
    lh_puts(output, "{\"get\":");
    if ((status = put_value(output, key)) || (status = lh_kv_compare_and_set(key, &zero, lh_str("2"), &wrong)) ||
        (status = lh_kv_compare_and_set(key, &one, lh_str("2"), &right)))
        return lh_fail(run, status);
    lh_printf(output, ",\"cas_wrong\":%s,\"cas_right\":%s,\"keys\":[", wrong ? "true" : "false", right ? "true" : "false");
    if ((status = lh_kv_list("conf/", NULL, 10, put_key, output)) || (status = lh_kv_delete(key, &deleted)))
        return lh_fail(run, status);
    lh_printf(output, "],\"deleted\":%s,\"after\":", deleted ? "true" : "false");
    if ((status = put_value(output, key)))
        return lh_fail(run, status);
    lh_puts(output, "}");
    return LH_SUCCESS;
}

static lh_slice every_byte(void) {
    static char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    return (lh_slice){bytes, sizeof bytes};
}

static void put_numbers(lh_buf *output, lh_slice bytes) {
    lh_puts(output, "[");
    for (size_t i = 0; i < bytes.len; i++)
        lh_printf(output, i ? ",%u" : "%u", (unsigned char)bytes.data[i]);
    lh_puts(output, "]");
}

static lh_outcome key_bytes(lh_run *run, lh_buf *output) {
    const char *key = "conf/b";
    const lh_slice nothing = lh_str("");
    lh_buf value = {0};
    bool new, present, filled, found;
    lh_status status;
    if ((status = lh_kv_compare_and_set(key, NULL, nothing, &new)))
        return lh_fail(run, status);
    lh_puts(output, "{\"empty\":");
    if ((status = put_value(output, key)) || (status = lh_kv_compare_and_set(key, NULL, lh_str("x"), &present)) ||
        (status = lh_kv_compare_and_set(key, &nothing, every_byte(), &filled)) || (status = lh_kv_get(key, &value, &found)))
        return lh_fail(run, status);
    lh_printf(output, ",\"new\":%s,\"present\":%s,\"filled\":%s,\"bytes\":", new ? "true" : "false",
              present ? "true" : "false", filled ? "true" : "false");
    put_numbers(output, lh_slice_of(&value));
    lh_puts(output, "}");
    lh_free(&value);
    return LH_SUCCESS;
}

static lh_outcome config(lh_slice input, lh_buf *output) {
    lh_buf value = {0};
    if (lh_config(text_of(input, "key"), &value))
        lh_put_json(output, lh_slice_of(&value));
    else
        lh_puts(output, "null");
    lh_free(&value);
    return LH_SUCCESS;
}

static lh_outcome send(lh_run *run, lh_slice input, lh_buf *output) {
    lh_field headers[MAX_HEADERS];
    const char *body = text_of(input, "body");
    lh_slice bytes = lh_str(body ? body : "");
    lh_request request = {
        .method = text_of(input, "method"),
        .url = text_of(input, "url"),
        .headers = headers,
        .headers_len = fields_of(input, "headers", headers),
        .body = body ? &bytes : NULL,
    };
    lh_response response = {0};
    lh_status status = lh_send(&request, &response);
    if (status) {
        char code[64];
        snprintf(code, sizeof code, "http-%s", lh_status_name(status));
        return lh_permanent(run, code, "%s", lh_last_error());
    }
    lh_printf(output, "{\"status\":%d,\"body\":", response.status);
    lh_put_json(output, lh_slice_of(&response.body));
    lh_puts(output, ",");
    put_text(output, "header", lh_response_header(&response, "x-reply"));
    lh_puts(output, "}");
    lh_response_free(&response);
    return LH_SUCCESS;
}

static lh_outcome send_bytes(lh_run *run, lh_slice input, lh_buf *output) {
    const lh_slice body = every_byte();
    lh_request request = {
        .method = "POST",
        .url = text_of(input, "url"),
        .headers = (lh_field[]){{"x-tag", "a"}, {"x-tag", "b"}},
        .headers_len = 2,
        .body = &body,
    };
    lh_response response;
    lh_status status = lh_send(&request, &response);
    if (status)
        return lh_fail(run, status);
    put_numbers(output, lh_slice_of(&response.body));
    lh_response_free(&response);
    return LH_SUCCESS;
}

lh_outcome lh_handle(lh_run *run, lh_slice input, lh_buf *output) {
    /* What is no JSON comes back as it is. */
    if (!lh_json_valid(input)) {
        lh_put(output, input);
        return LH_SUCCESS;
    }
    const char *check = text_of(input, "check");
    if (!check)
        return lh_permanent(run, "bad-input", "the payload names no check");
    if (strcmp(check, "echo") == 0) {
        lh_put(output, input);
        return LH_SUCCESS;
    }
    if (strcmp(check, "crash") == 0) {
        fputs("crash on purpose\n", stderr);
        abort();
    }
    if (strcmp(check, "facts") == 0)
        return facts(run, output);
    if (strcmp(check, "fail") == 0)
        return fail(run, input);
    if (strcmp(check, "log") == 0)
        return log_lines(output);
    if (strcmp(check, "poll") == 0)
        return poll(output);
    if (strcmp(check, "sleep") == 0)
        return wait(run, input, output);
    if (strcmp(check, "state") == 0)
        return state(run, output);
    if (strcmp(check, "kv") == 0)
        return key_values(run, output);
    if (strcmp(check, "kv-bytes") == 0)
        return key_bytes(run, output);
    if (strcmp(check, "config") == 0)
        return config(input, output);
    if (strcmp(check, "http") == 0)
        return send(run, input, output);
    if (strcmp(check, "http-bytes") == 0)
        return send_bytes(run, input, output);
    return lh_permanent(run, "bad-input", "no such check: %s", check);
}
