#include <string.h>

#include "testing.h"

static void it_greets_by_name(void) {
    lh_test_reset();
    lh_test_result got = lh_test_call("{\"name\": \"Ada\"}");
    lh_test_expect(got.outcome == LH_SUCCESS);
    lh_test_expect(strcmp(got.output.data, "\"Hello, Ada!\"") == 0);
    lh_test_result_free(&got);
}

static void it_refuses_a_payload_without_a_name(void) {
    const char *payloads[] = {"{}", "{\"name\": 7}"};
    for (int i = 0; i < 2; i++) {
        lh_test_reset();
        lh_test_result got = lh_test_call(payloads[i]);
        lh_test_expect(got.outcome == LH_PERMANENT);
        lh_test_expect(strcmp(got.code.data, "bad-input") == 0);
        lh_test_result_free(&got);
    }
}

static void it_greets_nobody_once_the_run_is_lost(void) {
    lh_test_reset();
    lh_test_stop_after(0, "lost");
    lh_test_result got = lh_test_call("{\"name\": \"Ada\"}");
    lh_test_expect(got.outcome == LH_CANCELLED);
    lh_test_result_free(&got);
}

int main(void) {
    it_greets_by_name();
    it_refuses_a_payload_without_a_name();
    it_greets_nobody_once_the_run_is_lost();
    return lh_test_end();
}
