/* The calls of leasehold.h, over the bindings that wit-bindgen makes of the contract. */
#include "leasehold.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bindings/job.h"

struct lh_failure {
    lh_buf code, message;
    lh_buf *details; /* pairs */
    size_t details_len;
};

/* Of the last call that failed. A plugin has one thread, and one attempt in its life. */
static struct {
    lh_buf text;
    uint64_t limit;
    bool is_http;
} last;

/* ---- To the host and back ---- */

static void *grown(void *memory, size_t size) {
    void *larger = realloc(memory, size);
    if (!larger)
        abort();
    return larger;
}

static job_string_t to_host(const char *text) { return (job_string_t){(uint8_t *)text, strlen(text)}; }

static job_list_u8_t bytes_to_host(lh_slice bytes) { return (job_list_u8_t){(uint8_t *)bytes.data, bytes.len}; }

static job_string_t buf_to_host(const lh_buf *buf) { return (job_string_t){(uint8_t *)buf->data, buf->len}; }

/* What is not UTF-8 the host would not take; in text for people it becomes U+FFFD. */
static lh_buf utf8(lh_slice text) {
    lh_buf checked = {0};
    lh_put_utf8(&checked, text);
    return checked;
}

static void make_utf8(lh_buf *buf) {
    lh_buf checked = utf8(lh_slice_of(buf));
    lh_free(buf);
    *buf = checked;
}

/* The bindings allocate nothing for what is empty. */
static void free_host(void *memory, size_t len) {
    if (len)
        free(memory);
}

/* Adds it and frees the host's copy. */
static void take(lh_buf *buf, uint8_t *data, size_t len) {
    lh_put(buf, (lh_slice){(char *)data, len});
    free_host(data, len);
}

static char *take_text(job_string_t text) {
    lh_buf copy = {0};
    take(&copy, text.ptr, text.len);
    return copy.data;
}

/* An array of the bindings that points into the fields. */
static job_list_tuple2_string_string_t fields_to_host(const lh_field *fields, size_t count) {
    job_tuple2_string_string_t *pairs = count ? grown(NULL, count * sizeof *pairs) : NULL;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (job_tuple2_string_string_t){to_host(fields[i].key), to_host(fields[i].value)};
    return (job_list_tuple2_string_string_t){pairs, count};
}

static lh_field *take_fields(job_tuple2_string_string_t *pairs, size_t count) {
    lh_field *fields = count ? grown(NULL, count * sizeof *fields) : NULL;
    for (size_t i = 0; i < count; i++)
        fields[i] = (lh_field){take_text(pairs[i].f0), take_text(pairs[i].f1)};
    free_host(pairs, count);
    return fields;
}

static void free_fields(lh_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free((char *)fields[i].key);
        free((char *)fields[i].value);
    }
    free(fields);
}

/* ---- The run ---- */

static lh_outcome failure(lh_run *run, lh_outcome outcome, const char *code, const char *format, va_list arguments) {
    struct lh_failure *f = run->failure;
    lh_clear(&f->code);
    lh_puts(&f->code, code);
    lh_clear(&f->message);
    lh_vprintf(&f->message, format, arguments);
    return outcome;
}

lh_outcome lh_retryable(lh_run *run, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    failure(run, LH_RETRYABLE, code, format, arguments);
    va_end(arguments);
    return LH_RETRYABLE;
}

lh_outcome lh_permanent(lh_run *run, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    failure(run, LH_PERMANENT, code, format, arguments);
    va_end(arguments);
    return LH_PERMANENT;
}

lh_outcome lh_cancelled(lh_run *run) {
    (void)run;
    return LH_CANCELLED;
}

void lh_detail(lh_run *run, const char *key, const char *value) {
    struct lh_failure *f = run->failure;
    f->details = grown(f->details, (f->details_len + 1) * 2 * sizeof *f->details);
    lh_buf *pair = f->details + 2 * f->details_len++;
    pair[0] = utf8(lh_str(key));
    pair[1] = utf8(lh_str(value));
}

/* Of one that the handler thought better of. */
static void free_failure(struct lh_failure *f) {
    lh_free(&f->code);
    lh_free(&f->message);
    for (size_t i = 0; i < 2 * f->details_len; i++)
        lh_free(&f->details[i]);
    free(f->details);
}

/* The bindings' copy of a failure, which they free. */
static void failure_to_host(struct lh_failure *f, leasehold_job_types_error_info_t *info) {
    make_utf8(&f->code);
    make_utf8(&f->message);
    job_tuple2_string_string_t *pairs = f->details_len ? grown(NULL, f->details_len * sizeof *pairs) : NULL;
    for (size_t i = 0; i < f->details_len; i++)
        pairs[i] = (job_tuple2_string_string_t){buf_to_host(&f->details[2 * i]), buf_to_host(&f->details[2 * i + 1])};
    info->code = buf_to_host(&f->code);
    info->message = buf_to_host(&f->message);
    info->details.ptr = pairs;
    info->details.len = f->details_len;
    free(f->details);
}

bool exports_leasehold_job_handler_handle(exports_leasehold_job_handler_run_info_t *info,
                                          exports_leasehold_job_handler_payload_t *input,
                                          exports_leasehold_job_handler_payload_t *output,
                                          exports_leasehold_job_handler_handler_error_t *error) {
    struct lh_failure failed = {0};
    lh_field *metadata = take_fields(info->metadata.ptr, info->metadata.len);
    lh_run run = {
        .id = take_text(info->run_id), .tenant = take_text(info->tenant), .job = take_text(info->job),
        .slot_ms = info->slot_ms, .attempt = info->attempt, .max_attempts = info->max_attempts, .fence = info->fence,
        .reason = take_text(info->reason), .metadata = metadata, .metadata_len = info->metadata.len, .failure = &failed,
    };
    lh_buf returned = {0};
    /* What is printed reaches the log line by line, a trap or not: it would wait in a buffer, as nobody sits before it. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    lh_outcome outcome = lh_handle(&run, (lh_slice){(char *)input->ptr, input->len}, &returned);
    fflush(NULL);

    free_host(input->ptr, input->len);
    free_fields(metadata, run.metadata_len);
    free((char *)run.id);
    free((char *)run.tenant);
    free((char *)run.job);
    free((char *)run.reason);
    lh_free(&last.text);
    if (outcome == LH_SUCCESS || outcome == LH_CANCELLED)
        free_failure(&failed);
    if (outcome == LH_SUCCESS) {
        if (returned.len == 0)
            lh_free(&returned);
        output->ptr = (uint8_t *)returned.data;
        output->len = returned.len;
        return true;
    }
    lh_free(&returned);
    if (outcome == LH_CANCELLED) {
        error->tag = LEASEHOLD_JOB_TYPES_HANDLER_ERROR_CANCELLED;
    } else if (outcome == LH_RETRYABLE) {
        error->tag = LEASEHOLD_JOB_TYPES_HANDLER_ERROR_RETRYABLE;
        failure_to_host(&failed, &error->val.retryable);
    } else {
        error->tag = LEASEHOLD_JOB_TYPES_HANDLER_ERROR_PERMANENT;
        failure_to_host(&failed, &error->val.permanent);
    }
    return false;
}

/* ---- The host's signal ---- */

bool lh_should_continue(void) { return leasehold_job_control_should_continue(); }

const char *lh_stop_reason(void) {
    static lh_buf reason;
    job_string_t word;
    lh_clear(&reason);
    if (!leasehold_job_control_stop_reason(&word))
        return NULL;
    take(&reason, word.ptr, word.len);
    return reason.data;
}

int64_t lh_remaining_ms(void) {
    uint64_t ms;
    if (!leasehold_job_control_remaining_ms(&ms))
        return -1;
    return ms > INT64_MAX ? INT64_MAX : (int64_t)ms;
}

bool lh_sleep(uint64_t ms) { return leasehold_job_control_sleep(ms); }

void lh_idempotency_key(const char *operation, lh_buf *key) {
    job_string_t name = to_host(operation), found;
    leasehold_job_control_idempotency_key(&name, &found);
    take(key, found.ptr, found.len);
}

void lh_progress(uint64_t done, uint64_t total, const char *message) {
    lh_buf checked = utf8(lh_str(message));
    job_string_t text = buf_to_host(&checked);
    leasehold_job_progress_update(done, total ? &total : NULL, &text);
    lh_free(&checked);
}

/* ---- The run's log ---- */

lh_level lh_max_level(void) { return (lh_level)leasehold_job_log_max_level(); }

static void log_line(lh_level level, const lh_field *fields, size_t count, const char *format, va_list arguments) {
    if (level < lh_max_level())
        return;
    lh_buf message = {0};
    lh_vprintf(&message, format, arguments);
    make_utf8(&message);
    job_string_t target = to_host("c"), text = buf_to_host(&message);
    lh_field *checked = count ? grown(NULL, count * sizeof *checked) : NULL;
    for (size_t i = 0; i < count; i++)
        checked[i] = (lh_field){utf8(lh_str(fields[i].key)).data, utf8(lh_str(fields[i].value)).data};
    job_list_tuple2_string_string_t pairs = fields_to_host(checked, count);
    leasehold_job_log_emit((leasehold_job_log_level_t)level, &target, &text, &pairs);
    free(pairs.ptr);
    free_fields(checked, count);
    lh_free(&message);
}

void lh_log(lh_level level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_line(level, NULL, 0, format, arguments);
    va_end(arguments);
}

void lh_log_fields(lh_level level, const lh_field *fields, size_t count, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_line(level, fields, count, format, arguments);
    va_end(arguments);
}

/* ---- What can go wrong ---- */

static const struct {
    const char *name;
    const char *text;
} WORDS[] = {
    [LH_OK] = {"ok", ""},
    [LH_LOST] = {"lost", "this attempt has lost its run"},
    [LH_TOO_LARGE] = {"too-large", "it is larger than allowed"},
    [LH_OVER_QUOTA] = {"over-quota", "the tenant would keep more than it may"},
    [LH_UNAVAILABLE] = {"unavailable", "the store is unavailable"},
    [LH_UNCERTAIN] = {"uncertain", "the lease came into doubt before an answer: it may or may not have had its effect"},
    [LH_DENIED] = {"denied", "denied"},
    [LH_INVALID] = {"invalid", "invalid"},
    [LH_UNREACHABLE] = {"unreachable", "unreachable"},
    [LH_TIMEOUT] = {"timeout", "no whole response in time"},
    [LH_OTHER] = {"other", "it failed"},
};

/* Keeps what went wrong. Frees the host's text, of which there is none for a NULL. */
static lh_status remember(lh_status status, bool is_http, job_string_t *why, uint64_t limit) {
    last.limit = limit;
    last.is_http = is_http;
    lh_clear(&last.text);
    lh_puts(&last.text, WORDS[status].text);
    if (limit)
        lh_printf(&last.text, " (%llu bytes)", (unsigned long long)limit);
    if (why) {
        lh_puts(&last.text, ": ");
        take(&last.text, why->ptr, why->len);
    }
    return status;
}

static lh_status of_state(leasehold_job_state_state_error_t *error) {
    switch (error->tag) {
    case LEASEHOLD_JOB_STATE_STATE_ERROR_LOST:
        return remember(LH_LOST, false, NULL, 0);
    case LEASEHOLD_JOB_STATE_STATE_ERROR_TOO_LARGE:
        return remember(LH_TOO_LARGE, false, NULL, error->val.too_large);
    case LEASEHOLD_JOB_STATE_STATE_ERROR_UNAVAILABLE:
        return remember(LH_UNAVAILABLE, false, &error->val.unavailable, 0);
    default:
        return remember(LH_OTHER, false, &error->val.other, 0);
    }
}

static lh_status of_kv(leasehold_job_kv_kv_error_t *error) {
    switch (error->tag) {
    case LEASEHOLD_JOB_KV_KV_ERROR_LOST:
        return remember(LH_LOST, false, NULL, 0);
    case LEASEHOLD_JOB_KV_KV_ERROR_TOO_LARGE:
        return remember(LH_TOO_LARGE, false, NULL, error->val.too_large);
    case LEASEHOLD_JOB_KV_KV_ERROR_OVER_QUOTA:
        return remember(LH_OVER_QUOTA, false, NULL, error->val.over_quota);
    case LEASEHOLD_JOB_KV_KV_ERROR_UNAVAILABLE:
        return remember(LH_UNAVAILABLE, false, &error->val.unavailable, 0);
    default:
        return remember(LH_OTHER, false, &error->val.other, 0);
    }
}

static lh_status of_http(leasehold_job_http_http_error_t *error) {
    switch (error->tag) {
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_LOST:
        return remember(LH_LOST, true, NULL, 0);
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_UNCERTAIN:
        return remember(LH_UNCERTAIN, true, NULL, 0);
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_DENIED:
        return remember(LH_DENIED, true, &error->val.denied, 0);
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_INVALID:
        return remember(LH_INVALID, true, &error->val.invalid, 0);
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_UNREACHABLE:
        return remember(LH_UNREACHABLE, true, &error->val.unreachable, 0);
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_TIMEOUT:
        return remember(LH_TIMEOUT, true, NULL, 0);
    case LEASEHOLD_JOB_HTTP_HTTP_ERROR_TOO_LARGE:
        return remember(LH_TOO_LARGE, true, NULL, error->val.too_large);
    default:
        return remember(LH_OTHER, true, &error->val.other, 0);
    }
}

const char *lh_last_error(void) { return last.text.data ? last.text.data : ""; }

uint64_t lh_last_limit(void) { return last.limit; }

const char *lh_status_name(lh_status status) { return WORDS[status].name; }

lh_outcome lh_fail(lh_run *run, lh_status status) {
    char code[32];
    if (status == LH_LOST)
        return lh_cancelled(run);
    snprintf(code, sizeof code, "%s-%s", last.is_http ? "http" : "storage", WORDS[status].name);
    bool again = status == LH_UNAVAILABLE || status == LH_UNCERTAIN || status == LH_UNREACHABLE || status == LH_TIMEOUT;
    if (again)
        return lh_retryable(run, code, "%s", lh_last_error());
    return lh_permanent(run, code, "%s", lh_last_error());
}

/* ---- State, key-values, settings ---- */

lh_status lh_load_state(lh_buf *data, bool *found) {
    job_option_list_u8_t loaded;
    leasehold_job_state_state_error_t error;
    *found = false;
    if (!leasehold_job_state_load(&loaded, &error))
        return of_state(&error);
    *found = loaded.is_some;
    if (loaded.is_some)
        take(data, loaded.val.ptr, loaded.val.len);
    return LH_OK;
}

lh_status lh_save_state(lh_slice data) {
    job_list_u8_t bytes = bytes_to_host(data);
    leasehold_job_state_state_error_t error;
    return leasehold_job_state_save(&bytes, &error) ? LH_OK : of_state(&error);
}

lh_status lh_kv_get(const char *key, lh_buf *value, bool *found) {
    job_string_t name = to_host(key);
    job_option_list_u8_t got;
    leasehold_job_kv_kv_error_t error;
    *found = false;
    if (!leasehold_job_kv_get(&name, &got, &error))
        return of_kv(&error);
    *found = got.is_some;
    if (got.is_some)
        take(value, got.val.ptr, got.val.len);
    return LH_OK;
}

lh_status lh_kv_set(const char *key, lh_slice value) {
    job_string_t name = to_host(key);
    job_list_u8_t bytes = bytes_to_host(value);
    leasehold_job_kv_kv_error_t error;
    return leasehold_job_kv_set(&name, &bytes, &error) ? LH_OK : of_kv(&error);
}

lh_status lh_kv_delete(const char *key, bool *deleted) {
    job_string_t name = to_host(key);
    leasehold_job_kv_kv_error_t error;
    return leasehold_job_kv_delete(&name, deleted, &error) ? LH_OK : of_kv(&error);
}

lh_status lh_kv_compare_and_set(const char *key, const lh_slice *expected, lh_slice value, bool *written) {
    job_string_t name = to_host(key);
    job_list_u8_t bytes = bytes_to_host(value), present = {0};
    leasehold_job_kv_kv_error_t error;
    if (expected)
        present = bytes_to_host(*expected);
    bool done = leasehold_job_kv_compare_and_set(&name, expected ? &present : NULL, &bytes, written, &error);
    return done ? LH_OK : of_kv(&error);
}

lh_status lh_kv_list(const char *prefix, const char *after, uint32_t limit, void (*each)(lh_slice key, void *with),
                     void *with) {
    job_string_t begins = to_host(prefix), behind = to_host(after ? after : "");
    job_list_string_t keys;
    leasehold_job_kv_kv_error_t error;
    if (!leasehold_job_kv_list_keys(&begins, after ? &behind : NULL, limit, &keys, &error))
        return of_kv(&error);
    for (size_t i = 0; i < keys.len; i++) {
        each((lh_slice){(char *)keys.ptr[i].ptr, keys.ptr[i].len}, with);
        free_host(keys.ptr[i].ptr, keys.ptr[i].len);
    }
    free_host(keys.ptr, keys.len);
    return LH_OK;
}

bool lh_config(const char *key, lh_buf *value) {
    job_string_t name = to_host(key), found;
    if (!leasehold_job_config_get(&name, &found))
        return false;
    take(value, found.ptr, found.len);
    return true;
}

/* ---- Requests ---- */

lh_status lh_send(const lh_request *request, lh_response *response) {
    leasehold_job_http_request_t sent = {
        .method = to_host(request->method ? request->method : "GET"),
        .url = to_host(request->url),
        .headers = fields_to_host(request->headers, request->headers_len),
        .body = {.is_some = request->body != NULL},
        .timeout_ms = {.is_some = request->timeout_ms != 0, .val = request->timeout_ms},
    };
    leasehold_job_http_response_t got;
    leasehold_job_http_http_error_t error;
    if (request->body)
        sent.body.val = bytes_to_host(*request->body);
    bool done = leasehold_job_http_send(&sent, &got, &error);
    free(sent.headers.ptr);
    *response = (lh_response){0};
    if (!done)
        return of_http(&error);
    response->status = got.status;
    response->headers_len = got.headers.len;
    response->headers = take_fields(got.headers.ptr, got.headers.len);
    take(&response->body, got.body.ptr, got.body.len);
    return LH_OK;
}

const char *lh_response_header(const lh_response *response, const char *name) {
    for (size_t i = 0; i < response->headers_len; i++)
        if (strcasecmp(response->headers[i].key, name) == 0)
            return response->headers[i].value;
    return NULL;
}

void lh_response_free(lh_response *response) {
    free_fields(response->headers, response->headers_len);
    lh_free(&response->body);
    *response = (lh_response){0};
}
