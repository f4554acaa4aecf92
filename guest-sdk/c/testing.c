/* The double of testing.h: what the generated bindings import, natively. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/job.h"

/* Of the checkpoint, a key or a setting. */
typedef struct {
    char *key;
    lh_buf value;
} entry;

typedef struct {
    entry *entries;
    size_t len;
} table;

#define SLOT_MS UINT64_C(1735689600000)
#define FIRST_ATTEMPT                                                                                                        \
    {                                                                                                                        \
        .id = "test-run", .tenant = "test", .job = "job", .slot_ms = SLOT_MS, .attempt = 1, .max_attempts = 3,               \
        .fence = SLOT_MS * 1024 + 1, .reason = "schedule"                                                                    \
    }

static struct {
    lh_run run;
    bool stops;
    unsigned checks;
    lh_buf reason;
    table kv, config, state;
    lh_status (*answer)(const lh_request *, lh_response *);
    uint64_t done, total;
    lh_buf log;
    unsigned failures;
} host = {.run = FIRST_ATTEMPT};

/* ---- Tables, in the order of their keys ---- */

static char *copy_of(const char *data, size_t len) {
    char *copy = malloc(len + 1);
    if (!copy)
        abort();
    if (len)
        memcpy(copy, data, len);
    copy[len] = 0;
    return copy;
}

static entry *find(table *t, const char *key) {
    for (size_t i = 0; i < t->len; i++)
        if (strcmp(t->entries[i].key, key) == 0)
            return &t->entries[i];
    return NULL;
}

static void set(table *t, const char *key, lh_slice value) {
    entry *known = find(t, key);
    if (!known) {
        t->entries = realloc(t->entries, (t->len + 1) * sizeof *t->entries);
        if (!t->entries)
            abort();
        size_t at = t->len++;
        for (; at > 0 && strcmp(t->entries[at - 1].key, key) > 0; at--)
            t->entries[at] = t->entries[at - 1];
        known = &t->entries[at];
        *known = (entry){.key = copy_of(key, strlen(key))};
    }
    lh_clear(&known->value);
    lh_put(&known->value, value);
}

static bool delete(table *t, const char *key) {
    entry *known = find(t, key);
    if (!known)
        return false;
    free(known->key);
    lh_free(&known->value);
    size_t at = (size_t)(known - t->entries);
    memmove(known, known + 1, (--t->len - at) * sizeof *known);
    return true;
}

static void clear(table *t) {
    while (t->len)
        delete (t, t->entries[0].key);
    free(t->entries);
    *t = (table){0};
}

/* ---- What tests call ---- */

void lh_test_reset(void) {
    clear(&host.kv);
    clear(&host.config);
    clear(&host.state);
    lh_clear(&host.log);
    lh_clear(&host.reason);
    host.run = (lh_run)FIRST_ATTEMPT;
    host.stops = false;
    host.answer = NULL;
    host.done = host.total = 0;
}

lh_run *lh_test_run(void) { return &host.run; }

void lh_test_next_attempt(void) {
    host.run.attempt++;
    host.run.fence++;
    host.run.reason = "takeover";
    host.stops = false;
}

void lh_test_stop_after(unsigned checks, const char *reason) {
    host.stops = true;
    host.checks = checks;
    lh_clear(&host.reason);
    lh_puts(&host.reason, reason);
}

void lh_test_set_config(const char *key, const char *value) { set(&host.config, key, lh_str(value)); }

void lh_test_answer(lh_status (*answer)(const lh_request *, lh_response *)) { host.answer = answer; }

void lh_test_progress(uint64_t *done, uint64_t *total) {
    *done = host.done;
    *total = host.total;
}

const char *lh_test_log(void) { return host.log.data ? host.log.data : ""; }

void lh_test_check(bool holds, const char *what, const char *file, int line) {
    if (holds)
        return;
    host.failures++;
    fprintf(stderr, "%s:%d: expected %s\n", file, line, what);
}

int lh_test_end(void) {
    fprintf(stderr, host.failures ? "%u expectations failed\n" : "all tests passed\n", host.failures);
    lh_test_reset();
    lh_free(&host.log);
    lh_free(&host.reason);
    return host.failures ? 1 : 0;
}

/* As the bindings have it, which allocate nothing for what is empty. */
static job_string_t text(const char *from) {
    if (!*from)
        return (job_string_t){0};
    return (job_string_t){(uint8_t *)copy_of(from, strlen(from)), strlen(from)};
}

static job_list_tuple2_string_string_t pairs_of(const lh_field *fields, size_t count) {
    job_list_tuple2_string_string_t pairs = {0};
    if (count && !(pairs.ptr = calloc(count, sizeof *pairs.ptr)))
        abort();
    for (; pairs.len < count; pairs.len++)
        pairs.ptr[pairs.len] = (job_tuple2_string_string_t){text(fields[pairs.len].key), text(fields[pairs.len].value)};
    return pairs;
}

static job_list_u8_t bytes(const lh_buf *from) {
    if (from->len == 0)
        return (job_list_u8_t){0};
    return (job_list_u8_t){(uint8_t *)copy_of(from->data, from->len), from->len};
}

/* What the host is told. It traps on a string that is not UTF-8, so this ends the tests. */
static lh_slice told(const job_string_t *from) {
    lh_slice given = {(char *)from->ptr, from->len};
    lh_buf checked = {0};
    lh_put_utf8(&checked, given);
    if (checked.len != given.len) {
        fprintf(stderr, "the host was given a text that is not UTF-8, on which it traps: \"%s\"\n", checked.data);
        abort();
    }
    lh_free(&checked);
    return given;
}

static char *name_of(const job_string_t *from) {
    lh_slice name = told(from);
    return copy_of(name.data, name.len);
}

/* Adds `key=value`. */
static void put_pair(lh_buf *buf, const job_tuple2_string_string_t *pair) {
    lh_put(buf, told(&pair->f0));
    lh_puts(buf, "=");
    lh_put(buf, told(&pair->f1));
}

static void keep(lh_test_result *result, exports_leasehold_job_handler_handler_error_t *error) {
    result->outcome = LH_CANCELLED;
    if (error->tag == LEASEHOLD_JOB_TYPES_HANDLER_ERROR_CANCELLED)
        return;
    bool again = error->tag == LEASEHOLD_JOB_TYPES_HANDLER_ERROR_RETRYABLE;
    leasehold_job_types_error_info_t *info = again ? &error->val.retryable : &error->val.permanent;
    result->outcome = again ? LH_RETRYABLE : LH_PERMANENT;
    lh_put(&result->code, told(&info->code));
    lh_put(&result->message, told(&info->message));
    free(info->code.ptr);
    free(info->message.ptr);
    for (size_t i = 0; i < info->details.len; i++) {
        job_tuple2_string_string_t *pair = &info->details.ptr[i];
        put_pair(&result->details, pair);
        lh_puts(&result->details, "\n");
        free(pair->f0.ptr);
        free(pair->f1.ptr);
    }
    free(info->details.ptr);
}

lh_test_result lh_test_call_bytes(lh_slice payload) {
    const lh_run *run = &host.run;
    job_list_tuple2_string_string_t metadata = pairs_of(run->metadata, run->metadata_len);
    exports_leasehold_job_handler_run_info_t info = {
        .run_id = text(run->id), .tenant = text(run->tenant), .job = text(run->job), .slot_ms = run->slot_ms,
        .attempt = run->attempt, .max_attempts = run->max_attempts, .fence = run->fence, .reason = text(run->reason),
        .metadata = {metadata.ptr, metadata.len},
    };
    exports_leasehold_job_handler_payload_t input = {0}, output;
    exports_leasehold_job_handler_handler_error_t error;
    lh_test_result result = {.outcome = LH_SUCCESS};
    if (payload.len)
        input = (exports_leasehold_job_handler_payload_t){(uint8_t *)copy_of(payload.data, payload.len), payload.len};
    lh_puts(&result.output, "");
    lh_puts(&result.code, "");
    lh_puts(&result.message, "");
    lh_puts(&result.details, "");
    if (exports_leasehold_job_handler_handle(&info, &input, &output, &error)) {
        lh_put(&result.output, (lh_slice){(char *)output.ptr, output.len});
        free(output.ptr);
    } else {
        keep(&result, &error);
    }
    return result;
}

lh_test_result lh_test_call(const char *payload) { return lh_test_call_bytes(lh_str(payload)); }

void lh_test_result_free(lh_test_result *result) {
    lh_free(&result->output);
    lh_free(&result->code);
    lh_free(&result->message);
    lh_free(&result->details);
}

/* ---- What the bindings import ---- */

bool leasehold_job_control_should_continue(void) {
    if (!host.stops)
        return true;
    if (host.checks == 0)
        return false;
    host.checks--;
    return true;
}

bool leasehold_job_control_stop_reason(job_string_t *ret) {
    if (!host.stops || host.checks > 0)
        return false;
    *ret = text(host.reason.data);
    return true;
}

bool leasehold_job_control_remaining_ms(uint64_t *ret) {
    (void)ret;
    return false;
}

bool leasehold_job_control_sleep(uint64_t ms) {
    (void)ms;
    return leasehold_job_control_should_continue();
}

void leasehold_job_control_idempotency_key(job_string_t *operation, job_string_t *ret) {
    lh_buf key = {0};
    lh_puts(&key, "test:");
    lh_put(&key, told(operation));
    *ret = text(key.data);
    lh_free(&key);
}

leasehold_job_log_level_t leasehold_job_log_max_level(void) { return LEASEHOLD_JOB_LOG_LEVEL_TRACE; }

void leasehold_job_log_emit(leasehold_job_log_level_t level, job_string_t *target, job_string_t *message,
                            job_list_tuple2_string_string_t *fields) {
    const char *levels[] = {"trace", "debug", "info", "warn", "error"};
    (void)target;
    size_t from = host.log.len;
    lh_printf(&host.log, "%s ", levels[level]);
    lh_put(&host.log, told(message));
    for (size_t i = 0; i < fields->len; i++) {
        lh_puts(&host.log, " ");
        put_pair(&host.log, &fields->ptr[i]);
    }
    lh_puts(&host.log, "\n");
    fputs(host.log.data + from, stderr);
}

void leasehold_job_progress_update(uint64_t done, uint64_t *maybe_total, job_string_t *message) {
    told(message);
    host.done = done;
    host.total = maybe_total ? *maybe_total : 0;
}

/* Bytes of a key; of a value, a checkpoint or a request's body. */
#define MAX_KEY 512
#define MAX_VALUE (1 << 20)

static bool fits(const job_string_t *key, size_t value, leasehold_job_kv_kv_error_t *err) {
    if (key->len <= MAX_KEY && value <= MAX_VALUE)
        return true;
    err->tag = LEASEHOLD_JOB_KV_KV_ERROR_TOO_LARGE;
    err->val.too_large = key->len > MAX_KEY ? MAX_KEY : MAX_VALUE;
    return false;
}

static void look_up(table *t, const char *key, job_option_list_u8_t *ret) {
    entry *known = find(t, key);
    *ret = (job_option_list_u8_t){.is_some = known != NULL};
    if (known)
        ret->val = bytes(&known->value);
}

bool leasehold_job_state_load(job_option_list_u8_t *ret, leasehold_job_state_state_error_t *err) {
    (void)err;
    look_up(&host.state, "", ret);
    return true;
}

bool leasehold_job_state_save(job_list_u8_t *data, leasehold_job_state_state_error_t *err) {
    if (data->len > MAX_VALUE) {
        *err = (leasehold_job_state_state_error_t){.tag = LEASEHOLD_JOB_STATE_STATE_ERROR_TOO_LARGE};
        err->val.too_large = MAX_VALUE;
        return false;
    }
    set(&host.state, "", (lh_slice){(char *)data->ptr, data->len});
    return true;
}

bool leasehold_job_kv_get(job_string_t *key, job_option_list_u8_t *ret, leasehold_job_kv_kv_error_t *err) {
    if (!fits(key, 0, err))
        return false;
    char *name = name_of(key);
    look_up(&host.kv, name, ret);
    free(name);
    return true;
}

bool leasehold_job_kv_set(job_string_t *key, job_list_u8_t *value, leasehold_job_kv_kv_error_t *err) {
    if (!fits(key, value->len, err))
        return false;
    char *name = name_of(key);
    set(&host.kv, name, (lh_slice){(char *)value->ptr, value->len});
    free(name);
    return true;
}

bool leasehold_job_kv_delete(job_string_t *key, bool *ret, leasehold_job_kv_kv_error_t *err) {
    if (!fits(key, 0, err))
        return false;
    char *name = name_of(key);
    *ret = delete (&host.kv, name);
    free(name);
    return true;
}

bool leasehold_job_kv_list_keys(job_string_t *prefix, job_string_t *maybe_after, uint32_t limit, job_list_string_t *ret,
                                leasehold_job_kv_kv_error_t *err) {
    if (!fits(prefix, 0, err) || (maybe_after && !fits(maybe_after, 0, err)))
        return false;
    char *begins = name_of(prefix), *after = maybe_after ? name_of(maybe_after) : NULL;
    *ret = (job_list_string_t){calloc(host.kv.len + 1, sizeof(job_string_t)), 0};
    if (!ret->ptr)
        abort();
    for (size_t i = 0; i < host.kv.len && ret->len < limit && ret->len < 1000; i++) {
        const char *key = host.kv.entries[i].key;
        if (strncmp(key, begins, strlen(begins)) == 0 && (!after || strcmp(key, after) > 0))
            ret->ptr[ret->len++] = text(key);
    }
    if (ret->len == 0)
        free(ret->ptr);
    free(begins);
    free(after);
    return true;
}

bool leasehold_job_kv_compare_and_set(job_string_t *key, job_list_u8_t *maybe_expected, job_list_u8_t *value, bool *ret,
                                      leasehold_job_kv_kv_error_t *err) {
    if (!fits(key, value->len, err))
        return false;
    char *name = name_of(key);
    entry *known = find(&host.kv, name);
    *ret = !known == !maybe_expected;
    if (known && maybe_expected)
        *ret = known->value.len == maybe_expected->len &&
               (known->value.len == 0 || memcmp(known->value.data, maybe_expected->ptr, known->value.len) == 0);
    free(name);
    return *ret ? leasehold_job_kv_set(key, value, err) : true;
}

bool leasehold_job_config_get(job_string_t *key, job_string_t *ret) {
    char *name = name_of(key);
    entry *known = find(&host.config, name);
    free(name);
    if (known)
        *ret = text(known->value.data);
    return known != NULL;
}

static void fail_request(lh_status status, const char *url, leasehold_job_http_http_error_t *err) {
    const uint8_t tags[] = {
        [LH_LOST] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_LOST, [LH_UNCERTAIN] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_UNCERTAIN,
        [LH_DENIED] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_DENIED, [LH_INVALID] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_INVALID,
        [LH_UNREACHABLE] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_UNREACHABLE, [LH_TIMEOUT] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_TIMEOUT,
        [LH_TOO_LARGE] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_TOO_LARGE, [LH_OTHER] = LEASEHOLD_JOB_HTTP_HTTP_ERROR_OTHER,
    };
    err->tag = tags[status];
    if (status == LH_DENIED || status == LH_INVALID || status == LH_UNREACHABLE || status == LH_OTHER)
        err->val.denied = text(url);
    if (status == LH_TOO_LARGE)
        err->val.too_large = MAX_VALUE;
}

/* The fields of a request or response, in memory of their own. */
static lh_field *fields_of(const job_list_tuple2_string_string_t *pairs) {
    lh_field *fields = calloc(pairs->len + 1, sizeof *fields);
    if (!fields)
        abort();
    for (size_t i = 0; i < pairs->len; i++)
        fields[i] = (lh_field){name_of(&pairs->ptr[i].f0), name_of(&pairs->ptr[i].f1)};
    return fields;
}

static void give(lh_response *answer, leasehold_job_http_response_t *ret) {
    *ret = (leasehold_job_http_response_t){
        .status = answer->status, .headers = pairs_of(answer->headers, answer->headers_len), .body = bytes(&answer->body),
    };
}

bool leasehold_job_http_send(leasehold_job_http_request_t *request, leasehold_job_http_response_t *ret,
                             leasehold_job_http_http_error_t *err) {
    char *method = name_of(&request->method), *url = name_of(&request->url);
    lh_field *headers = fields_of(&request->headers);
    lh_slice body = {(char *)request->body.val.ptr, request->body.is_some ? request->body.val.len : 0};
    lh_request asked = {
        .method = method, .url = url, .headers = headers, .headers_len = request->headers.len,
        .body = request->body.is_some ? &body : NULL,
        .timeout_ms = request->timeout_ms.is_some ? request->timeout_ms.val : 0,
    };
    lh_response answer = {0};
    lh_status status = !host.answer ? LH_DENIED : body.len > MAX_VALUE ? LH_TOO_LARGE : host.answer(&asked, &answer);
    if (status)
        fail_request(status, url, err);
    else
        give(&answer, ret);
    lh_response_free(&answer);
    for (size_t i = 0; i < asked.headers_len; i++) {
        free((char *)headers[i].key);
        free((char *)headers[i].value);
    }
    free(headers);
    free(method);
    free(url);
    return status == LH_OK;
}
