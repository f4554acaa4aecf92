/* Write a Leasehold job handler in C: a function from a run and its payload to an output.
 *
 *     #include "leasehold.h"
 *
 *     lh_outcome lh_handle(lh_run *run, lh_slice input, lh_buf *output) {
 *         if (!lh_should_continue())      // before every side effect
 *             return lh_cancelled(run);
 *         lh_info("attempt %u", run->attempt);
 *         lh_put(output, input);
 *         return LH_SUCCESS;
 *     }
 *
 * A plugin defines lh_handle and links leasehold.c and the generated bindings; README.md says how. All text is UTF-8.
 * Calls of the host that can fail return an lh_status, which is 0 when they did not; lh_fail makes of it what a handler
 * returns. Memory that runs out traps, as an abort() and any other crash does: the run fails with the code `trap`.
 */
#ifndef LEASEHOLD_H
#define LEASEHOLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Bytes ---- */

/* Bytes that belong to somebody else. */
typedef struct {
    const char *data;
    size_t len;
} lh_slice;

/* Bytes of one's own, which grow. Begins as {0}; there is always a NUL behind the last byte once something was put in,
 * so that text can be used as C's. Free it with lh_free; what is put into the handler's output, the SDK frees. */
typedef struct {
    char *data;
    size_t len;
    size_t capacity;
} lh_buf;

lh_slice lh_str(const char *text);
lh_slice lh_slice_of(const lh_buf *buf);
bool lh_equal(lh_slice a, const char *text);
/* Each of these adds to the end. */
void lh_put(lh_buf *buf, lh_slice bytes);
void lh_puts(lh_buf *buf, const char *text);
void lh_printf(lh_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lh_vprintf(lh_buf *buf, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
/* What is not UTF-8 in it becomes U+FFFD. */
void lh_put_utf8(lh_buf *buf, lh_slice text);
/* Empties it and keeps its memory. */
void lh_clear(lh_buf *buf);
void lh_free(lh_buf *buf);

/* A name and its value: a header, a field of a line of the log, or the run's metadata. */
typedef struct {
    const char *key;
    const char *value;
} lh_field;

/* ---- The run ---- */

typedef struct {
    /* Names the run across all its attempts, unique among all stores and namespaces. */
    const char *id;
    const char *tenant;
    const char *job;
    /* When the run was due, in milliseconds since the Unix epoch, UTC. */
    uint64_t slot_ms;
    /* 1 for the first start; each takeover adds one. */
    uint32_t attempt;
    uint32_t max_attempts;
    /* Grows strictly from win to win of a job. Hand it to systems that can refuse the older of two writers. */
    uint64_t fence;
    /* "schedule", "catch-up", "takeover" or "on-demand"; more words may come. */
    const char *reason;
    const lh_field *metadata;
    size_t metadata_len;
    /* The SDK's own. */
    struct lh_failure *failure;
} lh_run;

/* What a handler returns: LH_SUCCESS, or what one of the functions below gave it. */
typedef enum { LH_SUCCESS, LH_RETRYABLE, LH_PERMANENT, LH_CANCELLED } lh_outcome;

/* The one function that a plugin defines. `input` and `run` live until it returns. */
lh_outcome lh_handle(lh_run *run, lh_slice input, lh_buf *output);

/* Something that may go better next time. `code` is short and stable, for people who count errors: "upstream-timeout".
 * The host keeps at most 64 bytes of it, 8 KiB of the message, and 32 details of 1 KiB. */
lh_outcome lh_retryable(lh_run *run, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Something that fails the same way every time, such as a payload that makes no sense. */
lh_outcome lh_permanent(lh_run *run, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The handler saw that it must stop, and stopped. */
lh_outcome lh_cancelled(lh_run *run);
/* Adds a detail that is kept with the failure. */
void lh_detail(lh_run *run, const char *key, const char *value);

/* ---- The host's signal ---- */

/* False once the lease is lost, the host is stopping, the run was cancelled or its time is up. Costs nanoseconds: ask
 * before every side effect and in every loop. */
bool lh_should_continue(void);
/* Why it is false: "lost", "stopping", "cancelled" or "deadline"; more words may come. NULL while it is true. Valid until
 * the next call. */
const char *lh_stop_reason(void);
/* Milliseconds until the host interrupts this attempt by force; -1 where that is not known. */
int64_t lh_remaining_ms(void);
/* Waits. False, at once, when the attempt must stop before the time is over. */
bool lh_sleep(uint64_t ms);
/* Adds to `key` a key for one named operation of this run ("charge-42"), the same in every attempt: put it on requests
 * whose receiver knows idempotency keys. */
void lh_idempotency_key(const char *operation, lh_buf *key);
/* How far the run is. The newest report wins. A total of 0 means that nobody knows it. */
void lh_progress(uint64_t done, uint64_t total, const char *message);

/* ---- The run's log ---- */

typedef enum { LH_TRACE, LH_DEBUG, LH_INFO, LH_WARN, LH_ERROR } lh_level;

/* The least severe level that is kept. */
lh_level lh_max_level(void);
void lh_log(lh_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lh_log_fields(lh_level level, const lh_field *fields, size_t count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define lh_trace(...) lh_log(LH_TRACE, __VA_ARGS__)
#define lh_debug(...) lh_log(LH_DEBUG, __VA_ARGS__)
#define lh_info(...) lh_log(LH_INFO, __VA_ARGS__)
#define lh_warn(...) lh_log(LH_WARN, __VA_ARGS__)
#define lh_error(...) lh_log(LH_ERROR, __VA_ARGS__)

/* ---- What can go wrong with the calls below ---- */

typedef enum {
    LH_OK = 0,
    /* This attempt has lost the run; nothing was written or sent. */
    LH_LOST,
    /* Larger than lh_last_limit() bytes. */
    LH_TOO_LARGE,
    /* The tenant would keep more than lh_last_limit() bytes. */
    LH_OVER_QUOTA,
    /* The store does not answer. */
    LH_UNAVAILABLE,
    /* HTTP: sent, and then the lease came into doubt before an answer: it may or may not have had its effect. */
    LH_UNCERTAIN,
    /* HTTP: the origin is not granted, or leads to an address that is not. */
    LH_DENIED,
    LH_INVALID,
    LH_UNREACHABLE,
    LH_TIMEOUT,
    LH_OTHER,
} lh_status;

/* What went wrong with the last call that did, for a person; empty when none did. Valid until the next call. */
const char *lh_last_error(void);
/* The limit of LH_TOO_LARGE and LH_OVER_QUOTA, in bytes. */
uint64_t lh_last_limit(void);
/* "lost", "too-large" …: the contract's word for it. */
const char *lh_status_name(lh_status status);
/* What a handler returns for it: cancelled when the run is lost; retryable for LH_UNAVAILABLE, LH_UNCERTAIN,
 * LH_UNREACHABLE, LH_TIMEOUT; else permanent. The code is `storage-` or `http-` and the word; the message that of
 * lh_last_error. */
lh_outcome lh_fail(lh_run *run, lh_status status);

/* ---- State, key-values, settings ---- */

/* The checkpoint that this or an earlier attempt of the run saved last, added to `data`. */
lh_status lh_load_state(lh_buf *data, bool *found);
/* At most 1 MiB. Durable when it returns, and refused once the lease is lost. */
lh_status lh_save_state(lh_slice data);

/* The tenant's key-value space: shared by all its jobs, kept when runs end. Keys have at most 512 bytes, values 1 MiB. */
lh_status lh_kv_get(const char *key, lh_buf *value, bool *found);
lh_status lh_kv_set(const char *key, lh_slice value);
lh_status lh_kv_delete(const char *key, bool *deleted);
/* Writes only if the present value is `expected` (NULL: only if there is none). */
lh_status lh_kv_compare_and_set(const char *key, const lh_slice *expected, lh_slice value, bool *written);
/* Calls `each` with the keys that begin with `prefix`, in the order of their bytes, after `after` (NULL: from the first
 * on): at most `limit`, and never more than 1 000. */
lh_status lh_kv_list(const char *prefix, const char *after, uint32_t limit, void (*each)(lh_slice key, void *with),
                     void *with);

/* Adds to `value` a setting the operator gave the tenant and the job's manifest asks for; false when there is none. A
 * secret is a placeholder, which the host replaces in the one header and towards the one origin it was granted for. */
bool lh_config(const char *key, lh_buf *value);

/* ---- Requests, to origins that both the operator and the job's manifest allow ---- */

typedef struct {
    /* NULL: GET. */
    const char *method;
    const char *url;
    const lh_field *headers;
    size_t headers_len;
    /* NULL: none. At most 1 MiB. */
    const lh_slice *body;
    /* For the whole of it; 0: what remains of the attempt. */
    uint64_t timeout_ms;
} lh_request;

typedef struct {
    /* Whatever it says. */
    uint16_t status;
    lh_field *headers;
    size_t headers_len;
    lh_buf body;
} lh_response;

/* Sends it and waits for the whole response. Any status is a response. Free it with lh_response_free. */
lh_status lh_send(const lh_request *request, lh_response *response);
/* The first header of this name; NULL when there is none. */
const char *lh_response_header(const lh_response *response, const char *name);
void lh_response_free(lh_response *response);

/* ---- JSON: enough to read a payload and to write an output ---- */

/* Whether it is one whole JSON value. The calls below look no further than they must. */
bool lh_json_valid(lh_slice json);
/* The value of an object's member, as it stands there. False when `json` is no object or has none of this name. */
bool lh_json_get(lh_slice json, const char *name, lh_slice *value);
/* The next member of an object, or value of an array (whose name is empty); `at` begins as 0. False behind the last one,
 * and where the JSON is broken. */
bool lh_json_next(lh_slice json, size_t *at, lh_slice *name, lh_slice *value);
/* Adds a string's text, without its quotes and escapes. False when the value is no string. */
bool lh_json_text(lh_slice value, lh_buf *text);
/* False when the value is no whole number that fits. */
bool lh_json_int(lh_slice value, int64_t *number);
bool lh_json_is_null(lh_slice value);
/* Adds text as a JSON string, with its quotes. What is not UTF-8 in it becomes U+FFFD. */
void lh_put_json(lh_buf *buf, lh_slice text);

#endif
