/* For the unit tests of a handler, with a native compiler: a host that does as it is told.
 *
 * A test program links the handler's sources, leasehold.c, bytes.c and testing.c, in place of the generated bindings:
 *
 *     lh_test_reset();
 *     lh_test_result got = lh_test_call("{\"name\": \"Ada\"}");
 *     lh_test_expect(got.outcome == LH_SUCCESS);
 *     lh_test_result_free(&got);
 *     return lh_test_end();
 *
 * The host goes on until it is told to stop, does not really wait in lh_sleep, keeps state and key-values in memory, and
 * shows the run's log on standard error. A text that is not UTF-8, on which the host traps, ends the tests.
 */
#ifndef LEASEHOLD_TESTING_H
#define LEASEHOLD_TESTING_H

#include "leasehold.h"

/* How a handler ended: its output, or its code and message. */
typedef struct {
    lh_outcome outcome;
    lh_buf output;
    lh_buf code;
    lh_buf message;
    /* A line `key=value` for each detail. */
    lh_buf details;
} lh_test_result;

/* The first attempt of the job test/job at 2025-01-01T00:00:00Z, of a host that has just started. */
void lh_test_reset(void);
/* What the host says of the run, to be changed before the handler is called: lh_test_run()->reason = "on-demand". */
lh_run *lh_test_run(void);
/* From now on it is the next attempt, which has taken over: state and all else that was kept are there, and nothing asks it
 * to stop. */
void lh_test_next_attempt(void);
/* Calls lh_handle as the host does. */
lh_test_result lh_test_call(const char *payload);
lh_test_result lh_test_call_bytes(lh_slice payload);
void lh_test_result_free(lh_test_result *result);

/* The handler must stop once it has asked, or waited, `checks` more times: "lost", "stopping", "cancelled", "deadline". */
void lh_test_stop_after(unsigned checks, const char *reason);
/* What lh_config answers for this key. */
void lh_test_set_config(const char *key, const char *value);
/* What requests are answered; without it every origin is denied. It fills a response, whose memory lh_response_free must
 * be able to free, and returns LH_OK, or what went wrong. */
void lh_test_answer(lh_status (*answer)(const lh_request *request, lh_response *response));
/* The latest report of progress: how much is done, of how much. */
void lh_test_progress(uint64_t *done, uint64_t *total);
/* Lines of the log as `level message key=value …`, since the reset. */
const char *lh_test_log(void);

/* Says on standard error which expectation failed, and remembers it for lh_test_end, which is what main returns. */
#define lh_test_expect(condition) lh_test_check((condition), #condition, __FILE__, __LINE__)
void lh_test_check(bool holds, const char *what, const char *file, int line);
int lh_test_end(void);

#endif
